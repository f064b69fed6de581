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
	"github.com/haul-project/haul/tftp/internal/tftptest"
)

// Packets from strangers to the port of a running transfer do not affect it.
func TestPacketsFromStrangers(t *testing.T) {
	watchHeap(t)
	long := make([]byte, 60_000)
	tests := []struct {
		name     string
		packet   []byte
		answered bool // the server answers with ERROR 5
	}{
		{"the next DATA", tftptest.Data(2, long[:512]), true},
		{"the last DATA", tftptest.Data(2, long[:10]), true},
		{"DATA of 60000 bytes", tftptest.Data(2, long), true},
		{"the next ACK", tftptest.ACK(1), true},
		{"ACK far off", tftptest.ACK(40000), true},
		{"ERROR", tftptest.ErrorPacket(0, "stop"), false},
		{"ERROR 65535 with 60 KB of text", tftptest.Fields([]byte{0, 5, 0xff, 0xff}, strings.Repeat("x", 60_000)), false},
		{"OACK", tftptest.OACK("blksize", "8"), true},
		{"read request", tftptest.RRQ("image"), true},
		{"write request", tftptest.WRQ("image"), true},
		{"opcode 0", []byte{0, 0, 0, 0}, false},
		{"opcode 65535", []byte{0xff, 0xff}, true},
		{"one byte", []byte{4}, false},
		{"nothing", nil, false},
		{"60000 NULs", long, false},
	}
	for _, test := range tests {
		runCase(t, test.name, nil, func(tb *testbed) {
			// There is one loop, so all transfers have the same port.
			for range 20 {
				p := tb.another()
				p.To = tb.good.reader.To
				p.Send(test.packet)
				if test.answered {
					tb.wantAnswer(p, test.name, says(5))
				}
			}
			tb.good.step()
			tb.wantCount("strays", 20, func(c Counters) int64 { return c.Strays })
		})
	}
}

// Invalid packets from the peer itself are ignored, or end only this transfer.
func TestBadPacketsInTransfers(t *testing.T) {
	watchHeap(t)
	const ignored = taken // other values are the code of the ERROR that follows
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
		{"read request at the transfer's port", tftptest.RRQ("image"), ignored, ignored},
		{"write request at the transfer's port", tftptest.WRQ("image"), ignored, ignored},
		{"OACK", tftptest.OACK("blksize", "8"), ignored, ignored},
		{"OACK with nothing", tftptest.OACK(), ignored, ignored},
		{"ACK cut off", []byte{0, 4, 0}, ignored, ignored},
		{"ACK with a tail", append(tftptest.ACK(0), long...), ignored, ignored},
		{"ACK never sent", tftptest.ACK(2), ignored, ignored},
		{"ACK far off", tftptest.ACK(32768), ignored, ignored},
		{"ACK 65535", tftptest.ACK(65535), ignored, ignored},
		{"DATA cut off", []byte{0, 3, 0}, ignored, ignored},
		{"DATA 0", tftptest.Data(0, long[:512]), ignored, ignored},
		{"DATA beyond the window", tftptest.Data(3, long[:512]), ignored, ignored},
		{"last DATA beyond the window", tftptest.Data(3, long[:1]), ignored, ignored},
		{"DATA far off", tftptest.Data(32768, long[:512]), ignored, ignored},
		{"DATA 65535", tftptest.Data(65535, nil), ignored, ignored},
		{"DATA repeated, with other content", tftptest.Data(1, bytes.Repeat([]byte("evil"), 128)), ignored, ignored},
		{"DATA repeated, but longer", tftptest.Data(1, long), ignored, ignored},
		{"DATA of 60000 bytes", tftptest.Data(2, long), ignored, 4},
	}
	for _, test := range tests {
		runCase(t, test.name, nil, func(tb *testbed) {
			tb.mid(func() {
				tb.bad.Send(test.packet)
				tb.good.step()
			}, test.read, test.write)
		})
	}
	for _, code := range []uint16{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 255, 32768, 65535} {
		for name, text := range map[string]string{"": text, " without text": "", " with a forged line": "x\nlevel=ERROR msg=forged"} {
			packet := tftptest.Fields([]byte{0, 5, byte(code >> 8), byte(code)}, text)
			runCase(t, fmt.Sprint("ERROR ", code, name), nil, func(tb *testbed) {
				tb.mid(func() {
					tb.bad.Send(packet)
					tb.wantNoTransfersBut(2)
				}, 5, 5) // the packet that follows belongs to no transfer
			})
		}
	}
}

// mid calls f in the middle of a read by the peer, and then of a write. Each transfer must
// continue, or end with an ERROR with the given code.
func (tb *testbed) mid(f func(), read, write byte) {
	tb.Helper()
	want := tftptest.Content("image", 1200)
	writeFile(tb, tb.dir, "image", string(want))
	p := tb.askAgain()
	p.Send(tftptest.RRQ("image"))
	p.Want("DATA 1", tftptest.Data(1, want[:512]))
	f()
	p.Send(tftptest.ACK(1))
	if read == taken {
		p.Want("DATA 2", tftptest.Data(2, want[512:1024]))
		p.Send(tftptest.ACK(2))
		p.Want("DATA 3", tftptest.Data(3, want[1024:]))
		p.Send(tftptest.ACK(3))
	} else {
		tb.wantAnswer(p, "the read", []byte{0, 5, 0, read})
	}

	p = tb.askAgain()
	p.Send(tftptest.WRQ("new"))
	p.Want("ACK 0", tftptest.ACK(0))
	p.Send(tftptest.Data(1, want[:512]))
	p.Want("ACK 1", tftptest.ACK(1))
	f()
	if write == 4 {
		tb.wantAnswer(p, "the write", []byte{0, 5, 0, write})
		tftptest.WantNoFile(tb, tb.store, "new")
		return
	}
	p.Send(tftptest.Data(2, want[512:1000]))
	if write != taken {
		tb.wantAnswer(p, "the write", []byte{0, 5, 0, write})
		tftptest.WantNoFile(tb, tb.store, "new")
		return
	}
	got := p.Next(tftptest.Patience)
	// Repeated blocks may be acknowledged again.
	for ; bytes.Equal(got, tftptest.ACK(1)); got = p.Next(tftptest.Patience) {
	}
	if !bytes.Equal(got, tftptest.ACK(2)) {
		tb.Fatalf("got %.60q, want ACK 2", got)
	}
	tftptest.WantFile(tb, tb.store, "new", want[:1000])
}

// The server gives up on a silent peer within a bounded virtual time, and does not delay others.
func TestSilentPeer(t *testing.T) {
	block := make([]byte, 512)
	tests := []struct {
		name    string
		packets [][]byte // packets that the peer sends before it becomes silent
		bound   time.Duration
		outcome Outcome
	}{
		{"read, nothing", [][]byte{tftptest.RRQ("image")}, 20 * time.Second, PeerSilent},
		{"read with options, nothing", [][]byte{tftptest.RRQ("image", "blksize", "600")}, 20 * time.Second, PeerSilent},
		{"read with the longest timeout, nothing", [][]byte{tftptest.RRQ("image", "timeout", "255")}, 40 * time.Second, PeerSilent},
		{"read with the shortest timeout, nothing", [][]byte{tftptest.RRQ("image", "utimeout", "10000")}, 20 * time.Second, PeerSilent},
		{"read, only ACK 0", [][]byte{tftptest.RRQ("image", "windowsize", "64"), tftptest.ACK(0)}, 45 * time.Second, PeerSilent},
		{"read, a block", [][]byte{tftptest.RRQ("image"), tftptest.ACK(1)}, 45 * time.Second, PeerSilent},
		{"read with the longest timeout, a block", [][]byte{tftptest.RRQ("image", "timeout", "255"), tftptest.ACK(0), tftptest.ACK(1)}, 7 * time.Minute, PeerSilent},
		{"read, all but the last ACK", [][]byte{tftptest.RRQ("short"), tftptest.ACK(1)}, 15 * time.Second, Unconfirmed},
		{"write, nothing", [][]byte{tftptest.WRQ("new")}, 20 * time.Second, PeerSilent},
		{"write, a block", [][]byte{tftptest.WRQ("new"), tftptest.Data(1, block)}, 45 * time.Second, PeerSilent},
		{"write, half a window", [][]byte{tftptest.WRQ("new", "windowsize", "8"), tftptest.Data(1, block), tftptest.Data(2, block), tftptest.Data(4, block)}, 45 * time.Second, PeerSilent},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inWorld(t, func(w *simWorld, _ *Config) {
				w.net.Default = sim.Link{Latency: time.Millisecond}
			}, func(w *simWorld) {
				w.put("image", 100_000)
				w.put("short", 600)
				want := w.put("mine", 20_000)
				p := w.raw(otherIP)
				defer p.Close()
				for _, b := range test.packets {
					p.Send(b)
					p.Next(100 * time.Millisecond)
				}
				w.wantServed("mine", want)
				time.Sleep(test.bound)
				synctest.Wait()
				if n := w.server.Counters().Live; n != 0 {
					t.Errorf("%d transfers still wait after %v", n, test.bound)
				}
				w.wantResults(map[Outcome]int{test.outcome: 1, Done: 1})
				w.wantServed("mine", want)
				tftptest.WantNoFile(t, w.mem, "new")
			})
		})
	}
}

// wantServed checks that a client gets a file at once.
func (w *simWorld) wantServed(name string, want []byte) {
	w.t.Helper()
	began, here := time.Now(), store.Mem(0)
	if _, err := w.client().Get(context.Background(), target(name), tftptest.Into(here, name)); err != nil {
		w.t.Error(err)
	}
	tftptest.WantFile(w.t, here, name, want)
	if took := time.Since(began); took > time.Second {
		w.t.Errorf("a read of %d bytes took %v", len(want), took)
	}
}

// The server also gives up on a peer that keeps sending without progress.
func TestPeerWithoutProgress(t *testing.T) {
	tests := map[string]struct {
		begin, again []byte
	}{
		"the same ACK":        {tftptest.RRQ("image", "windowsize", "4"), tftptest.ACK(0)},
		"the same DATA":       {tftptest.WRQ("new"), tftptest.Data(1, make([]byte, 512))},
		"ACKs never sent":     {tftptest.RRQ("image"), tftptest.ACK(99)},
		"DATA far off":        {tftptest.WRQ("new"), tftptest.Data(40000, make([]byte, 512))},
		"nonsense at a read":  {tftptest.RRQ("image"), []byte{0, 99}},
		"nonsense at a write": {tftptest.WRQ("new"), []byte{0, 99}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(w *simWorld) {
				w.put("image", 100_000)
				want := w.put("mine", 20_000)
				p := w.raw(otherIP)
				defer p.Close()
				p.Send(test.begin)
				p.Next(time.Second)
				for range 700 { // which takes 350 s
					p.Send(test.again)
					time.Sleep(500 * time.Millisecond)
				}
				synctest.Wait()
				if n := w.server.Counters().Live; n != 0 {
					t.Errorf("%d transfers continue", n)
				}
				w.wantServed("mine", want)
			})
		})
	}
}
