package tftp

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
)

// Packets of strangers to the port of a live transfer do not affect it.
func TestPacketsFromStrangers(t *testing.T) {
	watchHeap(t)
	long := make([]byte, 60_000)
	tests := []struct {
		name     string
		packet   []byte
		answered bool // by ERROR 5
	}{
		{"the next DATA", data(2, long[:512]), true},
		{"the last DATA", data(2, long[:10]), true},
		{"DATA of 60000 bytes", data(2, long), true},
		{"the next ACK", ack(1), true},
		{"ACK far off", ack(40000), true},
		{"ERROR", errorPacket(0, "stop"), false},
		{"ERROR 65535 with 60 KB of text", fields([]byte{0, 5, 0xff, 0xff}, strings.Repeat("x", 60_000)), false},
		{"OACK", oack("blksize", "8"), true},
		{"read request", rrq("image"), true},
		{"write request", wrq("image"), true},
		{"opcode 0", []byte{0, 0, 0, 0}, false},
		{"opcode 65535", []byte{0xff, 0xff}, true},
		{"one byte", []byte{4}, false},
		{"nothing", nil, false},
		{"60000 NULs", long, false},
	}
	for _, test := range tests {
		runCase(t, test.name, nil, func(tb *testbed) {
			// There is one loop, and so one port for all transfers.
			for range 20 {
				p := tb.another()
				p.to = tb.good.reader.to
				p.send(test.packet)
				if test.answered {
					tb.wantAnswer(p, test.name, says(5))
				}
			}
			tb.good.step()
			tb.wantCount("strays", 20, func(c Counters) int64 { return c.Strays })
		})
	}
}

// Packets that make no sense, from the peer itself: they are ignored, or end
// this transfer and no other.
func TestBadPacketsInTransfers(t *testing.T) {
	watchHeap(t)
	const ignored = taken // and other values are those of the ERROR that follows
	text := strings.Repeat("\x1b[2J\n\x00\xff", 8000)
	long := make([]byte, 60_000)
	tests := []struct {
		name        string
		packet      []byte
		read, write byte
	}{
		{"nothing", nil, ignored, ignored},
		{"one byte", []byte{0}, ignored, ignored},
		{"opcode 0", []byte{0, 0, 0, 0}, ignored, ignored},
		{"opcode 7", []byte{0, 7, 0, 1}, ignored, ignored},
		{"opcode 65535", []byte{0xff, 0xff, 0, 1}, ignored, ignored},
		{"60000 NULs", long, ignored, ignored},
		{"read request at the transfer's port", rrq("image"), ignored, ignored},
		{"write request at the transfer's port", wrq("image"), ignored, ignored},
		{"OACK", oack("blksize", "8"), ignored, ignored},
		{"OACK with nothing", oack(), ignored, ignored},
		{"ACK cut off", []byte{0, 4, 0}, ignored, ignored},
		{"ACK with a tail", append(ack(0), long...), ignored, ignored},
		{"ACK never sent", ack(2), ignored, ignored},
		{"ACK far off", ack(32768), ignored, ignored},
		{"ACK 65535", ack(65535), ignored, ignored},
		{"DATA cut off", []byte{0, 3, 0}, ignored, ignored},
		{"DATA 0", data(0, long[:512]), ignored, ignored},
		{"DATA beyond the window", data(3, long[:512]), ignored, ignored},
		{"last DATA beyond the window", data(3, long[:1]), ignored, ignored},
		{"DATA far off", data(32768, long[:512]), ignored, ignored},
		{"DATA 65535", data(65535, nil), ignored, ignored},
		{"DATA repeated, with other content", data(1, bytes.Repeat([]byte("evil"), 128)), ignored, ignored},
		{"DATA repeated, but longer", data(1, long), ignored, ignored},
		{"DATA of 60000 bytes", data(2, long), ignored, 4},
	}
	for _, test := range tests {
		runCase(t, test.name, nil, func(tb *testbed) {
			tb.mid(func() {
				tb.bad.send(test.packet)
				tb.good.step()
			}, test.read, test.write)
		})
	}
	for _, code := range []uint16{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 255, 32768, 65535} {
		for name, text := range map[string]string{"": text, " without text": "", " with a forged line": "x\nlevel=ERROR msg=forged"} {
			packet := fields([]byte{0, 5, byte(code >> 8), byte(code)}, text)
			runCase(t, fmt.Sprint("ERROR ", code, name), nil, func(tb *testbed) {
				tb.mid(func() {
					tb.bad.send(packet)
					tb.wantNoTransfersBut(2)
				}, 5, 5) // what follows belongs to no transfer
			})
		}
	}
}

// mid calls f in the midst of a read of the peer's and then of a write, which
// continue, or end by an ERROR of a code.
func (tb *testbed) mid(f func(), read, write byte) {
	tb.Helper()
	want := content("image", 1200)
	writeFile(tb, tb.dir, "image", string(want))
	p := tb.askAgain()
	p.send(rrq("image"))
	p.want("DATA 1", data(1, want[:512]))
	f()
	p.send(ack(1))
	if read == taken {
		p.want("DATA 2", data(2, want[512:1024]))
		p.send(ack(2))
		p.want("DATA 3", data(3, want[1024:]))
		p.send(ack(3))
	} else {
		tb.wantAnswer(p, "the read", []byte{0, 5, 0, read})
	}

	p = tb.askAgain()
	p.send(wrq("new"))
	p.want("ACK 0", ack(0))
	p.send(data(1, want[:512]))
	p.want("ACK 1", ack(1))
	f()
	if write == 4 {
		tb.wantAnswer(p, "the write", []byte{0, 5, 0, write})
		wantNoFile(tb, tb.store, "new")
		return
	}
	p.send(data(2, want[512:1000]))
	if write != taken {
		tb.wantAnswer(p, "the write", []byte{0, 5, 0, write})
		wantNoFile(tb, tb.store, "new")
		return
	}
	got := p.next(patience)
	for ; bytes.Equal(got, ack(1)); got = p.next(patience) { // what repeats may be acknowledged again
	}
	if !bytes.Equal(got, ack(2)) {
		tb.Fatalf("got %.60q, want ACK 2", got)
	}
	wantFile(tb, tb.store, "new", want[:1000])
}

// A new request from the port of a live transfer takes its place, whichever
// the two are, and what was written before is not published.
func TestNewRequestReplacesTransfer(t *testing.T) {
	watchHeap(t)
	requests := map[string][]byte{"read": rrq("image"), "read of another": rrq("other"),
		"write": wrq("new"), "write of another": wrq("newer"), "write of the same": wrq("image")}
	for first, one := range requests {
		for second, two := range requests {
			if first == second {
				continue
			}
			runCase(t, first+", "+second, nil, func(tb *testbed) {
				want := content("image", 2000)
				writeFile(tb, tb.dir, "image", string(want))
				writeFile(tb, tb.dir, "other", string(want))
				p := tb.askAgain()
				for round := range 5 {
					for _, request := range [][]byte{one, two} {
						p = tb.askAgain()
						p.send(request)
						p.news()
						p.send(map[bool][]byte{true: ack(1), false: data(1, want[:512])}[request[1] == 1])
						p.news()
					}
					if round == 0 {
						tb.good.step()
					}
				}
				tb.wantNoTransfersBut(3)
				p.send(errorPacket(0, "enough"))
				tb.wantNoTransfersBut(2)
				wantFile(tb, tb.store, "image", want)
				wantNoFile(tb, tb.store, "new")
				wantNoFile(tb, tb.store, "newer")
			})
		}
	}
}

// A peer that falls silent is given up within a bound, in virtual time, and
// keeps no others waiting.
func TestSilentPeer(t *testing.T) {
	block := make([]byte, 512)
	tests := []struct {
		name    string
		packets [][]byte // what it sends before
		bound   time.Duration
		outcome Outcome
	}{
		{"read, nothing", [][]byte{rrq("image")}, 20 * time.Second, PeerSilent},
		{"read with options, nothing", [][]byte{rrq("image", "blksize", "600")}, 20 * time.Second, PeerSilent},
		{"read with the longest timeout, nothing", [][]byte{rrq("image", "timeout", "255")}, 40 * time.Second, PeerSilent},
		{"read with the shortest timeout, nothing", [][]byte{rrq("image", "utimeout", "10000")}, 20 * time.Second, PeerSilent},
		{"read, only ACK 0", [][]byte{rrq("image", "windowsize", "64"), ack(0)}, 45 * time.Second, PeerSilent},
		{"read, a block", [][]byte{rrq("image"), ack(1)}, 45 * time.Second, PeerSilent},
		{"read with the longest timeout, a block", [][]byte{rrq("image", "timeout", "255"), ack(0), ack(1)}, 7 * time.Minute, PeerSilent},
		{"read, all but the last ACK", [][]byte{rrq("short"), ack(1)}, 15 * time.Second, Unconfirmed},
		{"write, nothing", [][]byte{wrq("new")}, 20 * time.Second, PeerSilent},
		{"write, a block", [][]byte{wrq("new"), data(1, block)}, 45 * time.Second, PeerSilent},
		{"write, half a window", [][]byte{wrq("new", "windowsize", "8"), data(1, block), data(2, block), data(4, block)}, 45 * time.Second, PeerSilent},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *simWorld, _ *Server) {
				w.net.Default = sim.Link{Latency: time.Millisecond}
			}, func(w *simWorld) {
				w.put("image", 100_000)
				w.put("short", 600)
				want := w.put("mine", 20_000)
				p := w.raw(otherIP)
				defer p.close()
				for _, b := range test.packets {
					p.send(b)
					p.next(100 * time.Millisecond)
				}
				w.wantServed("mine", want)
				time.Sleep(test.bound)
				synctest.Wait()
				if n := w.listener.Counters().Live; n != 0 {
					t.Errorf("%d transfers still wait after %v", n, test.bound)
				}
				w.wantResults(map[Outcome]int{test.outcome: 1, Done: 1})
				w.wantServed("mine", want)
				wantNoFile(t, w.mem, "new")
			})
		})
	}
}

// wantServed checks that a client gets a file at once.
func (w *simWorld) wantServed(name string, want []byte) {
	w.t.Helper()
	began, here := time.Now(), store.Mem(0)
	if _, err := w.client().Get(context.Background(), target(name), into(here, name)); err != nil {
		w.t.Error(err)
	}
	wantFile(w.t, here, name, want)
	if took := time.Since(began); took > time.Second {
		w.t.Errorf("a read of %d bytes took %v", len(want), took)
	}
}

// A peer that keeps sending while nothing moves is given up, too.
func TestPeerWithoutProgress(t *testing.T) {
	tests := map[string]struct {
		begin, again []byte
	}{
		"the same ACK":        {rrq("image", "windowsize", "4"), ack(0)},
		"the same DATA":       {wrq("new"), data(1, make([]byte, 512))},
		"ACKs never sent":     {rrq("image"), ack(99)},
		"DATA far off":        {wrq("new"), data(40000, make([]byte, 512))},
		"nonsense at a read":  {rrq("image"), []byte{0, 99}},
		"nonsense at a write": {wrq("new"), []byte{0, 99}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(w *simWorld) {
				w.put("image", 100_000)
				want := w.put("mine", 20_000)
				p := w.raw(otherIP)
				defer p.close()
				p.send(test.begin)
				p.next(time.Second)
				for range 700 { // and 350 s
					p.send(test.again)
					time.Sleep(500 * time.Millisecond)
				}
				synctest.Wait()
				if n := w.listener.Counters().Live; n != 0 {
					t.Errorf("%d transfers continue", n)
				}
				w.wantServed("mine", want)
			})
		})
	}
}
