package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var testPeer = netip.MustParseAddrPort("192.0.2.7:2070")

// ack returns a packet to record, with a number.
func ack(n int) Packet {
	return Packet{Peer: testPeer, Data: []byte{0, 4, byte(n >> 8), byte(n)}}
}

// A gate is a writer that blocks until it is opened.
type gate struct {
	open chan struct{}
	bytes.Buffer
}

func (g *gate) Write(b []byte) (int, error) {
	<-g.open
	return g.Buffer.Write(b)
}

// fill records ACKs until one is dropped, and returns how many were queued. The tracer's goroutine
// must be blocked meanwhile.
func fill(t *testing.T, tr *Tracer) (kept int) {
	t.Helper()
	for tr.Lost() == 0 {
		tr.Record(ack(kept))
		if kept++; kept > 1<<20 {
			t.Fatal("the queue has no end")
		}
	}
	return kept - 1
}

func TestOnly(t *testing.T) {
	some := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("fe80::1/128")}
	tests := []struct {
		only []netip.Prefix
		peer string
		want bool
	}{
		{nil, "198.51.100.1:1", true},
		{nil, "[fe80::1%eth0]:1", true},
		{some, "192.0.2.7:1", true},
		{some, "[::ffff:192.0.2.7]:1", true},
		{some, "192.0.3.7:1", false},
		{some, "[::ffff:192.0.3.7]:1", false},
		{some, "[2001:db8:1::]:1", true},
		{some, "[2001:db9::]:1", false},
		{some, "[fe80::1%eth0]:1", true},
		{some, "[fe80::2%eth0]:1", false},
		{[]netip.Prefix{{}}, "192.0.2.7:1", false},
	}
	for _, test := range tests {
		var out bytes.Buffer
		tr := New(Config{Text: &out, Only: test.only})
		peer := netip.MustParseAddrPort(test.peer)
		wants := tr.Wants(peer)
		tr.Record(Packet{Peer: peer, Data: []byte("\x00\x04\x00\x01")})
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
		if traced := strings.Contains(out.String(), "ACK 1"); traced != test.want || wants != test.want {
			t.Errorf("only %v, peer %s: traced %v, wanted %v; want %v", test.only, test.peer, traced, wants, test.want)
		}
	}
}

// After Record and New, the caller may reuse its buffers and change its list of prefixes.
func TestRecordCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		only := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		tr := New(Config{Text: g, Only: only, HexBytes: -1})
		only[0] = netip.Prefix{}
		data := []byte{0, 4, 0, 0}
		for i := range 3 {
			data[3] = byte(i)
			tr.Record(Packet{Peer: testPeer, Data: data})
			synctest.Wait()
		}
		data[1] = 99
		close(g.open)
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if want := fmt.Sprintf("ACK %d  ", i); !strings.Contains(g.String(), want) {
				t.Errorf("no %q in\n%s", want, g.String())
			}
		}
	})
}

// Recorded packets are written at once, not only at Close, because people watch the trace.
func TestTextIsLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		tr := New(Config{Text: &out})
		defer tr.Close()
		for i := range 3 {
			tr.Record(ack(i))
			synctest.Wait()
			if want := fmt.Sprintf("ACK %d  ", i); !strings.Contains(out.String(), want) {
				t.Errorf("no %q yet in %q", want, out.String())
			}
		}
	})
}

func TestFullQueueDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text, pcap := &gate{open: make(chan struct{})}, &gate{open: make(chan struct{})}
		tr := New(Config{Text: text, Pcap: pcap, Queue: 1})
		tr.Record(ack(0))
		synctest.Wait() // the tracer is blocked in writing the headers of the capture, before any packet
		kept := fill(t, tr)
		if most := (MaxDatagram + packetCost) / (packetCost + 4); kept+1 != most {
			t.Errorf("the smallest queue keeps %d acks, want %d", kept+1, most)
		}
		for range 41 {
			tr.Record(ack(0))
		}
		close(text.open)
		close(pcap.open)
		synctest.Wait()
		tr.Record(ack(0xffff))
		synctest.Wait()
		if tr.Lost() != 42 {
			t.Errorf("%d packets lost, want 42", tr.Lost())
		}
		if err := tr.Close(); err != nil {
			t.Errorf("packets dropped are no error, but: %v", err)
		}
		out := text.String()
		if n := strings.Count(out, "  ACK "); n != kept+2 { // including the first one and the last one
			t.Errorf("%d acks in the text, want %d", n, kept+2)
		}
		before, after, ok := strings.Cut(out, "-- 42 packets are missing here\n")
		if !ok || strings.Contains(before, "ACK 65535") || !strings.Contains(after, "ACK 65535") {
			t.Errorf("it does not say where packets are missing:\n%s", out)
		}
		if !strings.HasSuffix(after, "\n-- 42 packets were not traced: more came than could be written in time\n") {
			t.Errorf("it does not say how many packets are missing:\n%s", after)
		}
		blocks := readPcapng(t, pcap.Bytes())
		if len(blocks) != kept+2+3 {
			t.Fatalf("%d blocks, want %d", len(blocks), kept+5)
		}
		const count = "\x2a\x00\x00\x00\x00\x00\x00\x00"
		if got := blocks[len(blocks)-2].options[optDropCount]; got != count {
			t.Errorf("the packet after the gap has drop count %q", got)
		}
		if got := blocks[len(blocks)-1].options[optInterfaceDrop]; got != count {
			t.Errorf("the statistics have drop count %q", got)
		}
	})
}

// The longest datagram fits into the smallest queue.
func TestSmallestQueue(t *testing.T) {
	var out bytes.Buffer
	tr := New(Config{Text: &out, Queue: 1, HexBytes: MaxDatagram})
	tr.Record(Packet{Peer: testPeer, Data: make([]byte, MaxDatagram)})
	if err := tr.Close(); err != nil || tr.Lost() != 0 || strings.Count(out.String(), "\n") != 1+(MaxDatagram+15)/16 {
		t.Errorf("%v, %d lost, %d bytes", err, tr.Lost(), out.Len())
	}
}

// A writer that blocks forever does not block Record, and blocks Close only for a bounded time.
// When its Write returns at last, the goroutine ends without writing more.
func TestWriterBlocksForEver(t *testing.T) {
	for _, recorded := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := &gate{open: make(chan struct{})}
			tr := New(Config{Text: g, Pcap: g, HexBytes: MaxDatagram})
			if recorded {
				tr.Record(ack(0))
				synctest.Wait()
				fill(t, tr)
			}
			start := time.Now()
			err := tr.Close()
			if waited := time.Since(start); err == nil || waited != closeGrace {
				t.Errorf("Close returned %v after %v", err, waited)
			}
			if err := tr.Close(); err != nil {
				t.Errorf("closing again: %v", err)
			}
			close(g.open)
			<-tr.done // otherwise the synctest bubble ends in a deadlock
			if n := bytes.Count(g.Bytes(), []byte("ACK")); n > 1 {
				t.Errorf("%d packets were written after Close had given up", n)
			}
		})
	}
}

// A failing is a writer that accepts `left` bytes and then fails with err.
type failing struct {
	left   int
	err    error
	writes atomic.Int64
}

func (f *failing) Write(b []byte) (int, error) {
	f.writes.Add(1)
	if f.left -= len(b); f.left < 0 {
		return 0, f.err
	}
	return len(b), nil
}

// If writing one form of the trace fails, that form ends, but the other form continues.
func TestWriteError(t *testing.T) {
	full := errors.New("disk full")
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		pcap := &failing{left: 1000, err: full}
		tr := New(Config{Text: &text, Pcap: pcap})
		for i := range 100 {
			tr.Record(ack(i))
			synctest.Wait()
		}
		writes := pcap.writes.Load()
		tr.Record(ack(100))
		err := tr.Close()
		if !errors.Is(err, full) || !strings.Contains(err.Error(), "pcapng") || strings.Contains(err.Error(), "text") {
			t.Errorf("Close returned %v", err)
		}
		if n := pcap.writes.Load(); n != writes {
			t.Errorf("%d writes after the one that failed", n-writes)
		}
		if n := strings.Count(text.String(), "ACK"); n != 101 {
			t.Errorf("%d acks in the text, want 101", n)
		}
	})
}

// When neither form can be written any more, no more packets are queued.
func TestAllWritesFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, other := errors.New("one"), errors.New("other")
		tr := New(Config{Text: &failing{err: one}, Pcap: &failing{err: other}})
		tr.Record(ack(0))
		synctest.Wait()
		if tr.Wants(testPeer) {
			t.Error("packets are still wanted")
		}
		for range 1 << 16 {
			tr.Record(ack(0))
		}
		if tr.Lost() != 0 {
			t.Errorf("%d packets queued and lost", tr.Lost())
		}
		if err := tr.Close(); !errors.Is(err, one) || !errors.Is(err, other) {
			t.Errorf("Close returned %v", err)
		}
	})
}

// A short is a writer that writes only a part, and returns no error.
type short struct{}

func (short) Write(b []byte) (int, error) { return len(b) / 2, nil }

func TestShortWrite(t *testing.T) {
	tr := New(Config{Pcap: short{}})
	if err := tr.Close(); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("Close returned %v", err)
	}
}

func TestNothingToWrite(t *testing.T) {
	tr := New(Config{})
	if tr.Wants(testPeer) {
		t.Error("wants packets without a writer")
	}
	tr.Record(ack(0))
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
}

func TestRecordAfterClose(t *testing.T) {
	var out bytes.Buffer
	tr := New(Config{Text: &out})
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	tr.Record(ack(0))
	if tr.Wants(testPeer) || tr.Lost() != 0 || out.Len() != 0 {
		t.Errorf("wants %v, lost %d, wrote %q", tr.Wants(testPeer), tr.Lost(), out.String())
	}
}

// A whole is a writer that checks that every Write consists of whole lines.
type whole struct {
	bytes.Buffer
	torn int
}

func (w *whole) Write(b []byte) (int, error) {
	if !bytes.HasSuffix(b, []byte("\n")) {
		w.torn++
	}
	return w.Buffer.Write(b)
}

// Any number of goroutines may record packets at once. The packets of each goroutine keep their
// order.
func TestManyGoroutines(t *testing.T) {
	const loops, each = 4, 500
	var text whole
	var pcap bytes.Buffer
	tr := New(Config{Text: &text, Pcap: &pcap})
	var wg sync.WaitGroup
	for i := range loops {
		wg.Go(func() {
			for n := range each {
				p := ack(n)
				p.Peer = netip.AddrPortFrom(testPeer.Addr(), uint16(i))
				tr.Record(p)
			}
		})
	}
	wg.Wait()
	if err := tr.Close(); err != nil || tr.Lost() != 0 {
		t.Fatalf("%v, %d lost", err, tr.Lost())
	}
	if text.torn > 0 {
		t.Errorf("%d writes of a part of a line", text.torn)
	}
	next := [loops]int{}
	for _, b := range readPcapng(t, pcap.Bytes())[2:] {
		if b.kind != blockPacket {
			continue
		}
		from, _, data := readDatagram(t, b.packet)
		if n := int(data[2])<<8 | int(data[3]); n != next[from.Port()] {
			t.Fatalf("loop %d: ACK %d where %d was due", from.Port(), n, next[from.Port()])
		}
		next[from.Port()]++
	}
	for i, n := range next {
		if n != each || strings.Count(text.String(), fmt.Sprintf("192.0.2.7:%d > ", i)) != each {
			t.Errorf("loop %d: %d packets of %d", i, n, each)
		}
	}
}

// Record allocates nothing for a peer that is not traced. Once the buffers have grown, it allocates
// nothing for a traced peer either.
func TestRecordAllocatesNothing(t *testing.T) {
	tr := New(Config{Text: io.Discard, Pcap: io.Discard, Only: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	defer tr.Close()
	traced := Packet{Time: time.Unix(1, 0), Peer: testPeer, Data: append([]byte{0, 3, 0, 1}, make([]byte, 1468)...)}
	other := traced
	other.Peer = netip.MustParseAddrPort("[fe80::1%eth0]:1")
	for range 10_000 {
		tr.Record(traced)
	}
	for name, p := range map[string]Packet{"not traced": other, "traced": traced} {
		if n := testing.AllocsPerRun(10_000, func() { tr.Record(p) }); n != 0 {
			t.Errorf("%s: %v allocations for each packet", name, n)
		}
	}
}

// Sync returns once all packets are written, but does not wait forever for a writer that hangs.
func TestSync(t *testing.T) {
	var out bytes.Buffer // no lock is needed, because Sync orders the accesses
	tr := New(Config{Text: &out})
	for i := range 100 {
		tr.Record(Packet{Data: []byte{0, 4, 0, byte(i)}})
		tr.Sync(time.Minute)
		if want := fmt.Sprintf("ACK %d ", i); !strings.Contains(out.String(), want) {
			t.Fatalf("%q is not written", want)
		}
	}
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	tr.Sync(time.Minute) // after Close, Sync returns at once

	r, w := io.Pipe()
	hangs := New(Config{Text: w})
	hangs.Record(Packet{Data: []byte{0, 4, 0, 1}})
	hangs.Sync(time.Millisecond)
	r.Close()
	_ = hangs.Close()
}
