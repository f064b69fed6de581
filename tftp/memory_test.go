package tftp

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/repeat"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
)

// wantAllFree checks that no loop has memory, and none is reserved.
func wantAllFree(t testing.TB, l *Server, what string) {
	t.Helper()
	if free, promised := l.memory.free.Load(), l.memory.promised.Load(); free != l.memory.limit || promised != 0 {
		t.Errorf("%s: %d of %d bytes are free, %d promised", what, free, l.memory.limit, promised)
	}
	if held := l.Counters().Held; held != 0 {
		t.Errorf("%s: %d bytes held", what, held)
	}
}

func TestMemoryCounts(t *testing.T) {
	var p pool
	p.set(100, 1)
	m := memory{pool: &p}
	var a, b int64
	steps := []struct {
		cost *int64
		n    int64
		ok   bool
		left int64
	}{
		{&a, 60, true, 40},
		{&a, 50, true, 40}, // a cost never decreases
		{&b, 41, false, 40},
		{&b, 40, true, 0},
		{&a, 61, false, 0},
		{&a, 60, true, 0},
	}
	for i, s := range steps {
		if ok := m.take(s.cost, s.n); ok != s.ok || m.available() != s.left || m.held.Load() != 100-s.left {
			t.Errorf("step %d: %v, %d left", i, ok, m.available())
		}
	}
	m.release(&a)
	m.release(&a)
	m.release(&b)
	if p.free.Load() != 100 || m.left != 0 || m.held.Load() != 0 {
		t.Errorf("%d free of 100", p.free.Load())
	}
}

// Loops that take and return memory at the same time never have more than the limit. They keep only
// a bounded amount that they do not use, so one loop can take the rest. A loop that uses no memory
// keeps none.
func TestLoopsShareMemory(t *testing.T) {
	const loops, limit = 32, 16 << 20
	repeat.OnFailure(t)
	var p pool
	p.set(limit, loops)
	memories := make([]memory, loops)
	costs := make([][]int64, loops)
	var wg sync.WaitGroup
	var used atomic.Int64
	for i := range memories {
		m := &memories[i]
		m.pool, costs[i] = &p, make([]int64, 100)
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		wg.Go(func() {
			for range 20_000 {
				c := &costs[i][rng.IntN(len(costs[i]))]
				if before := *c; before != 0 {
					used.Add(-before) // counted before other loops can take it
					m.release(c)
				} else if m.take(c, 1+rng.Int64N(64<<10)) {
					if all := used.Add(*c); all > limit {
						t.Errorf("%d bytes used of %d", all, limit)
					}
				}
				if m.left > 2*p.piece {
					t.Errorf("a loop has %d bytes unused", m.left)
				}
			}
		})
	}
	wg.Wait()
	sum, unused := p.free.Load(), int64(0)
	for i := range memories {
		sum += memories[i].left + memories[i].held.Load()
		unused += memories[i].left
	}
	if sum != limit || unused > limit/unusedShare {
		t.Errorf("%d of %d bytes are accounted for, %d leased and unused", sum, limit, unused)
	}
	for i := range memories[1:] {
		for k := range costs[1+i] {
			memories[1+i].release(&costs[1+i][k])
		}
		if left := memories[1+i].left; left != 0 {
			t.Errorf("a loop that uses nothing has %d bytes", left)
		}
	}
	var rest int64
	if m := &memories[0]; !m.take(&rest, m.available()) || p.free.Load() != 0 {
		t.Errorf("%d bytes are free, and cannot be had", p.free.Load())
	}
}

// If the memory for buffers is exhausted, a transfer that needs more is refused, and transfers that
// already have their memory continue.
func TestMemoryOut(t *testing.T) {
	const block = 8192
	inWorld(t, func(w *simWorld, s *Config) {
		s.Loops, s.Memory = 1, 10*block
		w.disk.NoTry = true // each read needs a buffer
	}, func(w *simWorld) {
		want := w.put("image", 4*block)
		var peers []*tftptest.Peer
		busy := 0
		for i := range 20 {
			p := w.raw(fmt.Sprintf("203.0.113.%d", 1+i))
			defer p.Close()
			p.Send(tftptest.RRQ("image", "blksize", fmt.Sprint(block)))
			p.Want("answer", tftptest.OACK("blksize", fmt.Sprint(block)))
			p.Send(tftptest.ACK(0))
			switch got := p.News(); transfer.OpcodeOf(got) {
			case transfer.Data:
				peers = append(peers, p)
			case transfer.ErrorPacket:
				busy++
			}
		}
		if len(peers) < 5 || len(peers) > 10 || busy != 20-len(peers) {
			t.Errorf("%d have a buffer and %d do not, of 20", len(peers), busy)
		}
		if held := w.server.Counters().Held; held > 10*block || held == 0 {
			t.Errorf("%d bytes held of %d", held, 10*block)
		}
		for _, p := range peers {
			for i := 1; i < 4; i++ {
				p.Send(tftptest.ACK(i))
				p.Want("another block", tftptest.Data(i+1, want[i*block:(i+1)*block]))
			}
			p.Send(tftptest.ACK(4))
			p.Want("the end", tftptest.Data(5, nil))
			p.Send(tftptest.ACK(5))
		}
		synctest.Wait()
		here := store.Mem(0)
		if _, err := w.client().Get(context.Background(), target("image"), tftptest.Into(here, "image")); err != nil {
			t.Errorf("once they are done: %v", err)
		}
		tftptest.WantFile(t, here, "image", want)
		time.Sleep(time.Minute)
		w.wantResults(map[Outcome]int{Done: len(peers) + 1, Failed: busy})
	})
}

// Many uploads at the same time all get windows for which there is memory. Later uploads get
// smaller windows, and no upload is refused once it sends data.
func TestManyUploadsAtOnce(t *testing.T) {
	const uploads, block = 300, 1024
	inWorld(t, func(_ *simWorld, s *Config) { s.Loops, s.Memory = 1, 16<<20 }, func(w *simWorld) {
		var peers []*tftptest.Peer
		var windows []int
		for i := range uploads {
			p := w.raw(otherIP)
			defer p.Close()
			p.Send(tftptest.WRQ(fmt.Sprint("new", i), "blksize", fmt.Sprint(block), "windowsize", "64"))
			var n int
			if _, err := fmt.Sscanf(string(bytes.ReplaceAll(p.News()[2:], []byte{0}, []byte(" "))), "blksize 1024 windowsize %d", &n); err != nil {
				t.Fatal(err)
			}
			peers, windows = append(peers, p), append(windows, n)
		}
		if windows[0] != 64 || windows[uploads-1] >= 64 {
			t.Errorf("windows from %d to %d", windows[0], windows[uploads-1])
		}
		for i, p := range peers {
			for k := 1; k <= windows[i]; k++ {
				p.Send(tftptest.Data(k, make([]byte, block)))
			}
		}
		synctest.Wait()
		for i, p := range peers {
			p.Want("a whole window", tftptest.ACK(windows[i]))
			p.Send(tftptest.Data(windows[i]+1, nil))
			p.Want("the end", tftptest.ACK(windows[i]+1))
		}
		time.Sleep(time.Minute)
		w.wantResults(map[Outcome]int{Done: uploads})
	})
}

// Forged uploads reduce the windows of other uploads only until the forged uploads end.
func TestForgedUploadsPromiseLittle(t *testing.T) {
	inWorld(t, func(_ *simWorld, s *Config) { s.Loops, s.Memory = 1, 16<<20 }, func(w *simWorld) {
		for i := range 2000 {
			p := w.raw(fmt.Sprintf("203.0.113.%d", 1+i%250))
			defer p.Close()
			p.Send(tftptest.WRQ(fmt.Sprint("new", i), "blksize", "1024", "windowsize", "64"))
		}
		time.Sleep(time.Second)
		b := tftptest.Content("real", 100_000)
		if _, err := w.client().Put(context.Background(), target("real"), bytes.NewReader(b), int64(len(b))); err != nil {
			t.Errorf("beside forged ones: %v", err)
		}
		tftptest.WantFile(t, w.mem, "real", b)
		time.Sleep(time.Minute)
		synctest.Wait()
		wantAllFree(t, w.server, "once all are over")
	})
}

// Until the peer of a request answers, nothing shows that it exists. So no memory and no disk space
// is taken for it.
func TestUnansweredUploadsTakeNothing(t *testing.T) {
	inWorld(t, nil, func(w *simWorld) {
		for range 300 {
			p := w.raw(otherIP)
			p.Send(tftptest.WRQ(fmt.Sprint("up", p.Conn.LocalAddr().Port()), "blksize", "65464", "windowsize", "65535", "tsize", "1000000000"))
			if op := transfer.OpcodeOf(p.Next(time.Second)); op != transfer.OptionAck {
				t.Fatalf("answered by packet %d", op)
			}
			p.Close()
		}
		if held := w.server.Counters().Held; held != 0 {
			t.Errorf("%d bytes taken for peers that never answered", held)
		}
	})
}

// The buffers of a burst of transfers are not kept for ever.
func TestSpareBuffersAreBounded(t *testing.T) {
	l := &Server{}
	sh := &shard{server: l}
	var all []*session
	for range 4 * maxSpare {
		r, w := sh.newReading(), sh.newWriting()
		r.fetch.ReadAhead((*tftptest.Zeros)(&tftptest.Endless{Size: fileio.MinFetch}), 0, fileio.MinFetch)
		w.buffer.Reset(minRing, 0, transfer.Octet)
		all = append(all, &r.session, &w.session)
	}
	for _, s := range all {
		s.counted = true
		l.count.Add(1)
		s.release()
	}
	kept := 0
	for _, r := range sh.readings {
		kept += r.fetch.Capacity()
	}
	for _, w := range sh.writings {
		kept += w.buffer.Size()
	}
	if most := maxSpare * (minRing + fileio.MinFetch); kept > most || kept == 0 {
		t.Errorf("%d bytes kept by %d sessions not in use, want at most %d", kept, len(all), most)
	}
}
