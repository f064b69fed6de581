package tftp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/tftpclient"
)

const (
	soakLength  = 10 * time.Minute // simulated time of a run, unless HAUL_SOAK is set
	soakClients = 4
	soakPause   = 20 * time.Second // the longest pause between two transfers of a client
	soakFaults  = 3                // the disk has faults in one of this many minutes, with any seed
	soakMemory  = 4 << 20          // additional bytes that the second half may use
)

// For hours of simulated time, clients begin and end transfers over a network that loses,
// duplicates and reorders packets, with a disk that fails and stalls. Each file that arrives must
// be right, no upload that the server confirmed may be lost, and the server may not have more
// goroutines, files or memory than before.
//
//	HAUL_SOAK=6h go test -run TestSoakSimulated ./tftp
//
// HAUL_SOAK_SEED repeats a run's faults.
func TestSoakSimulated(t *testing.T) {
	length, seed := soakLength, rand.Uint64()
	if s := os.Getenv("HAUL_SOAK"); s != "" {
		var err error
		if length, err = time.ParseDuration(s); err != nil || length < soakLength {
			t.Fatalf("HAUL_SOAK=%s: it is a duration of %v at least, such as 6h", s, soakLength)
		}
	}
	if s := os.Getenv("HAUL_SOAK_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("HAUL_SOAK_SEED: %v", err)
		}
	}
	t.Logf("seed %d, %v", seed, length)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, seed)
		w.net.Default = sim.Link{Latency: 3 * time.Millisecond, Jitter: 2 * time.Millisecond, Rate: 4 << 20, Loss: 0.02, Duplicate: 0.02, Reorder: 0.05}
		s := &simSoak{simWorld: w, faulty: soakDisk{random: rand.New(rand.NewPCG(seed, 1<<32))}}
		w.disk.Before = s.faulty.before
		w.start(nil)
		for i, size := range soakFiles {
			s.files = append(s.files, w.put(fmt.Sprint("file", i), size))
		}
		for i := range soakClients {
			s.each = append(s.each, &simSoaker{simSoak: s, id: i, random: rand.New(rand.NewPCG(seed, uint64(i))), here: store.Mem(1 << 20)})
		}
		s.work(length / 2)
		goroutines, heap := s.settled()
		s.work(length / 2)
		after, heapAfter := s.settled()
		t.Logf("%d downloads, %d uploads, %d failed by faults of the disk, %d vanished; %d goroutines, then %d; %d bytes in use, then %d",
			s.gets, s.puts, s.faults, s.vanished, goroutines, after, heap, heapAfter)
		if after > goroutines {
			t.Errorf("%d goroutines at half time, %d at the end", goroutines, after)
		}
		if heapAfter > heap+soakMemory {
			t.Errorf("%d bytes in use at half time, %d at the end", heap, heapAfter)
		}
		for _, c := range s.each {
			c.wantStored()
		}
		if s.gets == 0 || s.puts == 0 || s.faults == 0 || s.vanished == 0 {
			t.Error("something was never done")
		}
		w.end()
	})
}

// soakFiles are the sizes of existing files.
var soakFiles = []int{0, 1, 511, 512, 513, 8 * 1024, 50_000}

// settled returns the number of goroutines and the size of the heap when there is no activity.
func (s *simSoak) settled() (goroutines int, heap uint64) {
	time.Sleep(5 * time.Minute) // time after which the server has given up on peers that vanished
	synctest.Wait()
	s.log.mu.Lock()
	s.log.lines = nil
	s.log.mu.Unlock()
	runtime.GC()
	runtime.GC() // pools keep their content for one collection
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), m.HeapAlloc
}

// A soakDisk has faults in one of soakFaults minutes: calls fail or stall. The first call in such a
// minute always does, and others sometimes do.
type soakDisk struct {
	mu     sync.Mutex
	random *rand.Rand // guarded by mu
	minute int64      // guarded by mu
	bad    bool       // guarded by mu; calls may fail in this minute
	first  bool       // guarded by mu; there was no call in such a minute yet
	failed int        // guarded by mu
}

// faults returns how many calls have failed.
func (d *soakDisk) faults() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

func (d *soakDisk) before(c sim.Call) error {
	d.mu.Lock()
	if m := time.Now().Unix() / 60; m != d.minute {
		d.bad = m%soakFaults == 0
		d.minute, d.first = m, d.bad
	}
	fault := 100
	if d.bad {
		fault = d.random.IntN(20)
	}
	if c.Op != sim.TryRead && (fault == 0 || d.first) {
		fault, d.first = 0, false
		d.failed++
	}
	d.mu.Unlock()
	switch fault {
	case 0:
		switch c.Op {
		case sim.Create, sim.Write, sim.Truncate, sim.Commit:
			return syscall.ENOSPC
		case sim.Open, sim.Read:
			return syscall.EIO
		}
	case 1:
		if c.Op == sim.TryRead {
			return store.ErrWouldBlock
		}
		time.Sleep(time.Second)
	}
	return nil
}

// A simSoak is a soak in a simulated world.
type simSoak struct {
	*simWorld
	faulty soakDisk
	files  [][]byte
	each   []*simSoaker

	mu                           sync.Mutex
	gets, puts, faults, vanished int // guarded by mu
}

// A simSoaker is one client of the soak.
type simSoaker struct {
	*simSoak
	id     int
	random *rand.Rand
	here   store.Tree
	stored []byte   // content that the server confirmed last
	unsure [][]byte // later contents that the server did not confirm, but may have
}

func (c *simSoaker) own() string { return fmt.Sprint("own", c.id) }

func (s *simSoak) work(length time.Duration) {
	end := time.Now().Add(length)
	var all sync.WaitGroup
	for _, c := range s.each {
		all.Go(func() {
			for time.Now().Before(end) && !s.t.Failed() {
				c.act()
				time.Sleep(time.Duration(c.random.Int64N(int64(soakPause))))
			}
		})
	}
	all.Wait()
}

// count adds one to a counter of the soak.
func (s *simSoak) count(n *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
}

// act transfers a file, or begins a transfer and vanishes.
func (c *simSoaker) act() {
	client := &simClient{&tftpclient.Client{BlockSize: []int{512, 1024, 1428}[c.random.IntN(3)], Window: []int{1, 4, 16}[c.random.IntN(3)]}, c.opener(clientIP)}
	defer client.Wait()
	ctx, faults := context.Background(), c.faulty.faults()
	var err error
	switch n := c.random.IntN(10); {
	case n < 5:
		i := c.random.IntN(len(c.files))
		if _, err = client.Get(ctx, target(fmt.Sprint("file", i)), tftptest.Into(c.here, "got")); err == nil {
			tftptest.WantFile(c.t, c.here, "got", c.files[i])
			c.count(&c.gets)
		}
	case n < 9:
		b := tftptest.Content(fmt.Sprint(c.id, c.random.Uint64()), c.random.IntN(30_000))
		if _, err = client.Put(ctx, target(c.own()), bytes.NewReader(b), int64(len(b))); err == nil {
			c.stored, c.unsure = b, nil
			tftptest.WantFile(c.t, c.mem, c.own(), b)
			c.count(&c.puts)
		} else {
			c.unsure = append(c.unsure, b)
		}
	default:
		p := c.raw(otherIP)
		p.Send(tftptest.RRQ("file6"))
		if c.random.IntN(2) == 0 {
			p.Send(tftptest.WRQ("lie"))
		}
		p.Close()
		c.count(&c.vanished)
	}
	if err != nil {
		c.count(&c.faults)
		if c.faulty.faults() == faults {
			c.t.Errorf("client %d: %v", c.id, err)
		}
	}
}

// wantStored checks the last file that the client has stored.
func (c *simSoaker) wantStored() {
	c.t.Helper()
	f, err := c.mem.Open(context.Background(), c.own())
	if err != nil {
		c.t.Errorf("client %d: %v", c.id, err)
		return
	}
	defer f.Close()
	got, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
	if err != nil {
		c.t.Errorf("client %d: %v", c.id, err)
	}
	if !slices.ContainsFunc(c.unsure, func(b []byte) bool { return bytes.Equal(b, got) }) {
		tftptest.WantFile(c.t, c.mem, c.own(), c.stored)
	}
}
