//go:build linux

package interop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	soakClients = 24
	soakShared  = 4                // names to which all clients write
	soakWarmUp  = 5 * time.Second  // of work before the first measurement
	soakWork    = 15 * time.Second // of work in total, unless HAUL_SOAK is set
	soakSilence = 30 * time.Second // after which the server gives up on a peer: docs/tftp.md, section 5

	// How much more the server may have after the work than after the warm-up. Unused memory
	// counts separately: the collector lets the heap double, and its state is random.
	soakGoroutines = 4
	soakHeap       = 8 << 20    // bytes in use
	soakResident   = memoryLoop // resident bytes, for each CPU
)

// Two dozen clients perform all valid operations, and many invalid ones, in a random mix: see
// mix. Each file must be right, and afterwards the server must not have more memory than after a
// short time of it.
//
//	HAUL_SOAK=1h go test -timeout 70m -run TestSoak ./interop
//
// HAUL_SOAK_SEED repeats a mix, except for the effects of the kernel.
func TestSoak(t *testing.T) {
	k := newSoak(t)
	open := k.m.descriptors(t)

	k.work(t, soakWarmUp)
	k.m.await(t, "the end of all transfers but those that wait for a vanished peer", func(s sample) bool {
		return s["haul_transfers_live"] <= float64(k.vanished.Load())
	})
	before, resident := k.m.collected(t), k.m.memory(t, "VmRSS")

	k.work(t, k.length-soakWarmUp)
	k.m.await(t, "the end of all transfers, and of what they had open", func(s sample) bool {
		return s["haul_transfers_live"] == 0 && k.m.descriptors(t) <= open+spareDescriptors &&
			s["go_goroutines"] <= before["go_goroutines"]+soakGoroutines
	})
	after := k.m.collected(t)
	k.report(t)
	t.Logf("goroutines %v, then %v; live heap %s, then %s; resident %s, then %s, at most %s; %d descriptors, then %d",
		before["go_goroutines"], after["go_goroutines"], inMiB(before.liveHeap()), inMiB(after.liveHeap()),
		inMiB(resident), inMiB(k.m.memory(t, "VmRSS")), inMiB(k.m.memory(t, "VmHWM")), open, k.m.descriptors(t))

	if grown := after.liveHeap() - before.liveHeap(); grown > soakHeap {
		t.Errorf("the heap has grown by %s", inMiB(grown))
	}
	if grown := k.m.memory(t, "VmRSS") - resident; grown > int64(runtime.NumCPU())*soakResident {
		t.Errorf("memory has grown by %s", inMiB(grown))
	}
	if held := after["haul_tftp_buffer_bytes"]; held != 0 {
		t.Errorf("%v bytes of buffers are held for no transfer", held)
	}
	k.m.healthy(t)
	k.wantDisk(t)
	if err := k.m.stop(); err != nil {
		t.Errorf("haul serve, told to end: %v", err)
	}
}

// A soak is a server, with what its clients know about it.
type soak struct {
	m       *metered
	dir     string // served directory
	staging string // on the same file system
	seed    uint64
	length  time.Duration // duration of all work

	clients     []*soaker
	vanishUntil time.Time // peers that vanish later would delay the end
	vanished    atomic.Int64
	failed      failures
	fulls       atomic.Int64 // odd while the disk is full, and incremented at each change

	mu   sync.Mutex
	done map[string]int // number of operations, by name
}

func newSoak(t *testing.T) *soak {
	k := &soak{length: soakWork, seed: rand.Uint64(), done: map[string]int{}}
	if testing.Short() {
		k.length = 2 * soakWarmUp
	}
	if s := os.Getenv("HAUL_SOAK"); s != "" {
		var err error
		if k.length, err = time.ParseDuration(s); err != nil || k.length <= soakWarmUp {
			t.Fatalf("HAUL_SOAK=%s: it is a duration above %v, such as 1h", s, soakWarmUp)
		}
	}
	if s := os.Getenv("HAUL_SOAK_SEED"); s != "" {
		var err error
		if k.seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("HAUL_SOAK_SEED: %v", err)
		}
	}
	t.Logf("to repeat: HAUL_SOAK_SEED=%d HAUL_SOAK=%v go test -run '^TestSoak$' ./interop", k.seed, k.length)
	base := t.TempDir()
	k.dir, k.staging = filepath.Join(base, "served"), filepath.Join(base, "staging")
	for _, d := range []string{k.dir, k.staging} {
		if err := os.Mkdir(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for i, size := range soakSizes {
		if err := os.WriteFile(filepath.Join(k.dir, soakFile(i)), described(uint64(i), size), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for i := range soakClients {
		k.clients = append(k.clients, &soaker{soak: k, id: i, random: rand.New(rand.NewPCG(k.seed, uint64(i)))})
	}
	k.m = serveMetered(t, k.dir, "--upload", "overwrite")
	k.vanishUntil = time.Now().Add(max(soakWarmUp/4, k.length-soakSilence))
	return k
}

// soakFile returns the name of a file that does not change.
func soakFile(i int) string { return fmt.Sprintf("file%d", i) }

// work keeps the clients busy for a while, and meanwhile reads the metrics and replaces a file.
func (k *soak) work(t *testing.T, length time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var all sync.WaitGroup
	for _, c := range k.clients {
		all.Go(func() {
			for ctx.Err() == nil && !k.failed.any() {
				c.act()
			}
		})
	}
	all.Go(func() {
		k.every(ctx, 100*time.Millisecond, func(uint64) error { _, err := k.m.scrape(t.Context()); return err })
	})
	all.Go(func() { k.every(ctx, 20*time.Millisecond, k.replace) })
	all.Wait()
	if k.failed.report(t) {
		t.FailNow()
	}
}

// every calls f at intervals until ctx ends, and passes the number of earlier calls.
func (k *soak) every(ctx context.Context, pause time.Duration, f func(n uint64) error) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for n := uint64(0); ; n++ {
		if err := f(n); err != nil {
			k.failed.add(err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// replace gives the file "replaced" new content, as an administrator would, with a rename.
func (k *soak) replace(n uint64) error {
	name := filepath.Join(k.staging, "next")
	if err := os.WriteFile(name, described(1000+n, 50_000+int(n%100)*1000), 0o666); err != nil {
		return err
	}
	return os.Rename(name, filepath.Join(k.dir, "replaced"))
}

// excuse reports whether an operation may fail that began when fulls had the given value: the
// disk was full at some time since.
func (k *soak) excuse(fulls int64) bool { return fulls%2 == 1 || k.fulls.Load() != fulls }

// did counts an operation.
func (k *soak) did(what string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.done[what]++
}

// report logs the numbers of operations. Each part of the mix must have happened.
func (k *soak) report(t *testing.T) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	var words []string
	for _, a := range mix {
		words = append(words, fmt.Sprintf("%s %d", a.name, k.done[a.name]))
		if k.done[a.name] == 0 {
			t.Errorf("%s: never done, the work is too short", a.name)
		}
	}
	t.Logf("done: %s; %d peers vanished for good", strings.Join(words, ", "), k.vanished.Load())
}

// wantDisk checks the files of the server: complete ones, the last ones that the server
// acknowledged to each client, and no others.
func (k *soak) wantDisk(t *testing.T) {
	t.Helper()
	// Abandoned uploads are removed when the disk gets around to it.
	for end := time.Now().Add(scalePatience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if hidden, _ := filepath.Glob(filepath.Join(k.dir, ".*")); len(hidden) == 0 {
			break
		}
	}
	entries, err := os.ReadDir(k.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(k.dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(e.Name(), ".") || strings.HasPrefix(e.Name(), "lie") {
			t.Errorf("%s was left, with %d bytes", e.Name(), len(b))
		} else if err := whole(b); err != nil {
			t.Errorf("%s: %v", e.Name(), err)
		}
	}
	for _, c := range k.clients {
		if c.stored != nil {
			wantFile(t, filepath.Join(k.dir, c.own()), c.stored)
		}
	}
}
