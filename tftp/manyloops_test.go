package tftp

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/internal/repeat"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

var loopsSeed = flag.Uint64("loops.seed", 0, "seed of the simulations of many loops; 0 takes fixed ones")

// A loopsModel models a server with many loops in virtual time. The server's real code chooses the
// loop of a transfer, its memory and its window. The cost of a packet and the speed of a peer are
// parameters of the model.
type loopsModel struct {
	*steppedServer
	t     *testing.T
	rng   *rand.Rand
	loops map[*shard]*modelLoop
	since time.Time // start of the loops' statistics
	next  int       // number of the next peer
	ended int

	small, uploads int // number of uploads with a reduced window, and of all uploads
}

type modelLoop struct {
	transfers []*modelTransfer
	demand    time.Duration    // time that all transfers need in one tick
	waiting   []*modelTransfer // requests that wait for the loop
	spent     time.Duration    // time that the loop has used since the model began
	late      time.Duration    // work for which the loop had no time
}

type modelTransfer struct {
	request Request
	r       *reading // nil for a write
	w       *writing // nil for a read
	packets float64  // remaining packets
	rate    float64  // packets per tick, if the loop has time
	cost    time.Duration
}

const (
	modelTick    = time.Millisecond
	requestCost  = 10 * time.Microsecond  // cost of opening, beginning and ending a transfer
	lockStepCost = 2500 * time.Nanosecond // cost of a block and its ACK, in turns with other packets
	windowCost   = 500 * time.Nanosecond  // cost of a block of a window
)

// newLoopsModel makes a model. If the test fails, it prints how to repeat it.
func newLoopsModel(t *testing.T, loops int, seed uint64) *loopsModel {
	seed = cmp.Or(*loopsSeed, seed)
	repeat.OnFailure(t, "-args", "-loops.seed", fmt.Sprint(seed))
	m := &loopsModel{
		steppedServer: manualRoutes(loops, Config{Store: &tftptest.Endless{Size: 1 << 30}}),
		t:             t, rng: rand.New(rand.NewPCG(seed, uint64(loops))), loops: map[*shard]*modelLoop{},
	}
	for sh := range m.allShards {
		m.loops[sh] = &modelLoop{}
		sh.occupied.since = m.now
	}
	m.measure()
	return m
}

// begin makes a peer request a transfer of the given bytes, at the given packets per second.
func (m *loopsModel) begin(write bool, offer transfer.Options, bytes int64, rate float64) {
	m.next++
	q := Request{Peer: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(m.next >> 16), byte(m.next >> 8), byte(m.next)}), 2000)}
	q.Write, q.Mode, q.Offer = write, transfer.Octet, offer
	sh := m.bindings[0].route(m.now, &q)
	tr := &modelTransfer{request: q, rate: rate * modelTick.Seconds(), cost: windowCost}
	tr.packets = float64(bytes / int64(max(offer.BlockSize, transfer.DefaultBlockSize)))
	l := m.loops[sh]
	l.waiting = append(l.waiting, tr)
	sh.queued.Store(int32(len(l.waiting)))
}

// accept does what a loop does for a request.
func (m *loopsModel) accept(sh *shard, tr *modelTransfer) {
	offer := tr.request.Offer
	m.bindings[0].routes.arrived(tr.request.Peer, true)
	switch {
	case tr.request.Write:
		w := sh.newWriting()
		tr.w = w
		w.prepare(m.now, tr.request)
		room := m.memory.free.Load() >= m.memory.limit/2
		w.agree(m.now)
		if m.uploads++; w.receiver.Agreed().Window < offer.Window {
			if m.small++; room {
				m.t.Errorf("%v: window %d of %d, with %d of %d bytes free", m.now.Sub(m.began), w.receiver.Agreed().Window, offer.Window, m.memory.free.Load(), m.memory.limit)
			}
		}
		if err := w.grantRing(); err != nil {
			m.t.Fatalf("an upload gets no memory with %d bytes free: %v", m.memory.free.Load(), err)
		}
	case offer.Window <= 1:
		tr.cost = lockStepCost
		tr.r = sh.newReading()
		_ = sh.memory.isScarce() || sh.memory.take(&tr.r.fetchCost, maxAhead)
	}
	m.loops[sh].transfers = append(m.loops[sh].transfers, tr)
}

// tick advances the time by a millisecond.
func (m *loopsModel) tick() {
	began := m.now
	m.now = m.now.Add(modelTick)
	for sh, l := range m.loops {
		taken := min(len(l.waiting), int(modelTick/requestCost))
		for _, tr := range l.waiting[:taken] {
			m.accept(sh, tr)
		}
		l.waiting = l.waiting[taken:]
		sh.queued.Store(int32(len(l.waiting)))
		l.demand = requestCost * time.Duration(taken)
		for _, tr := range l.transfers {
			l.demand += time.Duration(min(tr.rate, tr.packets) * float64(tr.cost))
		}
		spent := min(l.demand, modelTick)
		part := float64(spent) / float64(max(l.demand, 1))
		kept := l.transfers[:0]
		for _, tr := range l.transfers {
			if tr.packets -= tr.rate * part; tr.packets > 0.5 {
				kept = append(kept, tr)
			} else {
				m.end(sh, tr)
			}
		}
		l.transfers = kept
		l.spent += spent
		l.late += l.demand - spent
		sh.occupied.turn(m.began, began, began.Add(spent))
	}
}

func (m *loopsModel) end(sh *shard, tr *modelTransfer) {
	if tr.w != nil {
		tr.w.settle(m.now, nil)
	}
	if tr.r != nil {
		sh.memory.release(&tr.r.fetchCost)
	}
	m.bindings[0].routes.release(tr.request.Peer)
	m.ended++
}

// endAll ends all transfers.
func (m *loopsModel) endAll() {
	for _, l := range m.loops {
		for _, tr := range append(l.transfers, l.waiting...) {
			tr.packets = min(tr.packets, 100)
		}
	}
	for m.ended < m.next {
		m.tick()
	}
	wantAllFree(m.t, m.Server, "once all have ended")
}

// balance returns the work of the busiest loop, the mean work of all loops, and the fraction of all
// work that was late. Work of 1 takes all the time that a loop has.
func (m *loopsModel) balance() (most, mean, late float64) {
	span := m.now.Sub(m.since).Seconds()
	for _, l := range m.loops {
		work := (l.spent + l.late).Seconds() / span
		most = max(most, work)
		mean += work / float64(len(m.loops))
		late += l.late.Seconds() / span / float64(len(m.loops))
	}
	return most, mean, late / mean
}

// measure restarts the statistics.
func (m *loopsModel) measure() {
	m.since = m.now
	for _, l := range m.loops {
		l.spent, l.late = 0, 0
	}
}

// onManyLoops runs a test with models of 16 and 32 loops.
func onManyLoops(t *testing.T, f func(*loopsModel)) {
	seeds := uint64(2)
	if race.Enabled {
		seeds = 1
	}
	for _, loops := range []int{16, 32} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%d loops, %d", loops, seed), func(t *testing.T) {
				m := newLoopsModel(t, loops, 1+seed)
				f(m)
				m.endAll()
			})
		}
	}
}

// Ten thousand lock-step transfers begin within 1 ms or within seconds, and some transfers with
// windows among them. No loop lacks time while others have time left.
func TestManyLoopsLockStep(t *testing.T) {
	const transfers = 10_000
	spans := []time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second, 3 * time.Second}
	if race.Enabled { // only one goroutine computes
		spans = spans[:1]
	}
	for _, span := range spans {
		t.Run(span.String(), func(t *testing.T) {
			onManyLoops(t, func(m *loopsModel) {
				for end := m.now.Add(span); m.now.Before(end); m.tick() {
					for range transfers / int(span/modelTick) {
						m.begin(false, transfer.Options{}, 4<<20, 300+m.rng.Float64()*1000)
					}
					if m.rng.IntN(20) == 0 {
						m.begin(m.rng.IntN(2) == 0, transfer.Options{BlockSize: 1428, Window: 64}, 64<<20, 80e3)
					}
				}
				for range 20 { // the work of transfers that begin together is only estimated
					m.tick()
				}
				m.measure()
				for range 500 {
					m.tick()
				}
				most, mean, late := m.balance()
				m.t.Logf("busiest loop %.2f, mean %.2f, %.2f %% late", most, mean, 100*late)
				if mean < 0.75 && late > 0.01 {
					m.t.Errorf("%.1f %% of the work comes late, with loops busy to %.2f in the mean", 100*late, mean)
				}
				if mean >= 0.75 && most > 1.25*mean {
					m.t.Errorf("one loop has work for %.2f of its time, the mean is %.2f", most, mean)
				}
				if m.small != 0 {
					m.t.Errorf("%d of %d uploads have small windows", m.small, m.uploads)
				}
			})
		})
	}
}

// Uploads and downloads with windows of 4 to 256 blocks begin and end, with sizes and rates that
// differ by a factor of a hundred. The work of the busiest loop exceeds the mean by at most a
// quarter.
func TestManyLoopsWindows(t *testing.T) {
	onManyLoops(t, func(m *loopsModel) {
		for range 3000 {
			for range m.rng.IntN(3) * len(m.loops) / 16 {
				o := transfer.Options{BlockSize: 1428, Window: 4 << m.rng.IntN(7)}
				m.begin(m.rng.IntN(2) == 0, o, int64(m.rng.ExpFloat64()*16e6), 1000+m.rng.Float64()*80e3)
			}
			m.tick()
		}
		most, mean, _ := m.balance()
		m.t.Logf("busiest loop %.2f, mean %.2f; %d of %d uploads with a smaller window", most, mean, m.small, m.uploads)
		if mean < 0.2 || most > 1.25*mean {
			m.t.Errorf("one loop has work for %.2f of its time, the mean is %.2f", most, mean)
		}
	})
}

// Transfers with large windows that are requested at the same time are distributed evenly among the
// loops, and no window is reduced.
func TestManyLoopsAtOnce(t *testing.T) {
	onManyLoops(t, func(m *loopsModel) {
		const uploads = 35
		for range uploads {
			m.begin(true, transfer.Options{BlockSize: 1428, Window: 256}, 64<<20, 80e3)
		}
		for sh, l := range m.loops {
			if n, loops := len(l.waiting), len(m.loops); n < uploads/loops || n > (uploads+loops-1)/loops || n != sh.windowed {
				m.t.Errorf("a loop has %d of %d transfers", n, uploads)
			}
		}
		m.tick()
		if m.small != 0 || m.uploads != uploads {
			m.t.Errorf("%d of %d windows are small", m.small, m.uploads)
		}
	})
}

// The same requests are sent as packets to a server with the default memory. Every upload gets the
// window that it requests, although an equal share of the memory for each loop would be too small.
func TestManyLoopsGiveLargeWindows(t *testing.T) {
	inWorld(t, func(_ *simWorld, s *Config) { s.Loops = 32 }, func(w *simWorld) {
		const uploads, window = 35, 256
		var peers []*tftptest.Peer
		for i := range uploads {
			p := w.raw(otherIP)
			defer p.Close()
			p.Send(tftptest.WRQ(fmt.Sprint("new", i), "blksize", "1428", "windowsize", "256"))
			p.Want("the window", tftptest.OACK("blksize", "1428", "windowsize", "256"))
			p.Send(tftptest.Data(1, make([]byte, 1428))) // from now on the upload has its memory
			peers = append(peers, p)
		}
		synctest.Wait()
		if held := w.server.Counters().Held; held < uploads*window*2*1428 {
			t.Errorf("%d bytes held by %d uploads", held, uploads)
		}
		for _, p := range peers {
			p.Send(tftptest.Data(2, nil))
			p.Want("the end", tftptest.ACK(2))
		}
		time.Sleep(time.Minute)
		w.wantResults(map[Outcome]int{Done: uploads})
	})
}

// Packets of running transfers need no data that loops share: no route, no address in the guard's
// table, and no further memory.
func TestPacketsShareNothing(t *testing.T) {
	const readers = 8
	lib := newPagedStore(t, 1)
	lib.put("image", tftptest.Content("image", 1<<20))
	mem := store.Mem(1 << 30)
	d := newLockstepServer(t, Config{Store: lib, Write: func(ctx context.Context, r *Request) (store.Upload, error) {
		return mem.Create(ctx, r.Name, store.Create{})
	}})
	var all []*lockstepReader
	for range readers {
		all = append(all, d.reads("image", 512))
	}
	d.ask(peerAt(60_000), tftptest.WRQ("new"))
	d.turn(0)
	d.turn(0)
	packet := tftptest.Data(1, make([]byte, 512))
	upload := func(block int) {
		packet[2], packet[3] = byte(block>>8), byte(block)
		d.deliver(0, peerAt(60_000), packet)
		d.turn(1)
	}
	for range maxChunks * chunkSize / 512 { // after these reads, each chunk has its buffer
		for _, p := range all {
			p.step()
		}
	}
	upload(1)
	for range maxErrors { // beyond this limit, packets that belong to no transfer are not looked up
		d.sh.errors.Allow(d.now, maxErrors)
	}

	d.guard.mu.Lock()
	d.bindings[0].routes.mu.Lock()
	d.sh.memory.pool = nil
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 200 { // within a second
			for _, p := range all {
				p.step()
			}
			upload(2 + i)
			d.deliver(0, peerAt(60_001), tftptest.ACK(i)) // a packet that belongs to no transfer
			d.turn(1)
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("packets wait for a lock that all loops have")
	}
	d.sh.memory.pool = &d.memory
	d.bindings[0].routes.mu.Unlock()
	d.guard.mu.Unlock()
	for i, p := range all {
		if p.err != "" || p.acked < 200 {
			t.Errorf("reader %d has %d blocks, error %q", i, p.acked, p.err)
		}
	}
	if ack := tftptest.ACK(201); !bytes.Equal(d.out.latest[peerAt(60_000)], ack) {
		t.Errorf("the upload is answered by %q, want %q", d.out.latest[peerAt(60_000)], ack)
	}
	d.halt(t)
}

// Many loops use real sockets at the same time, with reads and uploads, in lock-step and with
// windows.
func TestManyLoopsOnSockets(t *testing.T) {
	for _, loops := range []int{16, 32} {
		t.Run(fmt.Sprint(loops), func(t *testing.T) {
			mem := store.Mem(1 << 30)
			var used sync.Map // sockets that have answered
			l := serve(t, Config{Store: mem, Upload: OverwriteUploads, Loops: loops, Hooks: Hooks{Trace: func(_ time.Time, sent bool, _, local netip.AddrPort, _ []byte) {
				if sent {
					used.Store(local.Port(), true)
				}
			}}})
			storetest.Put(t, mem, "image", make([]byte, 100_000))
			for range loops { // each upload uses a loop without transfers
				p := newBadPeer(t, l)
				p.Send(tftptest.RRQ("image", "windowsize", "4"))
				p.Want("answer", tftptest.OACK("windowsize", "4"))
				defer p.Send(tftptest.ErrorPacket(0, "enough"))
			}
			for deadline := time.Now().Add(tftptest.Patience); ; time.Sleep(time.Millisecond) {
				ports := 0
				for range used.Range {
					ports++
				}
				if ports == loops {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%d of %d loops were used", ports, loops)
				}
			}
			var wg sync.WaitGroup
			for i := range 4 * loops {
				c := &tftpclient.Client{BlockSize: 1428, Window: []int{1, 4, 64, 256}[i%4]}
				wg.Go(func() { thereAndBack(t, c, l, mem, fmt.Sprint("file", i), 50_000+i) })
				defer c.Wait()
			}
			wg.Wait()
		})
	}
}
