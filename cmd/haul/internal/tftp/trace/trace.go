// Package trace shows TFTP packets to people: as text, one line a packet, and
// as pcapng for Wireshark.
//
// A [Tracer] takes packets from any goroutine without ever waiting, and writes
// them from one of its own:
//
//	t := trace.New(trace.Config{Text: os.Stderr, Pcap: file})
//	t.Record(trace.Packet{Time: now, Peer: peer, Local: local, Data: datagram})
//	err := t.Close() // the trace is whole, unless it says otherwise
//
// Packets recorded faster than they can be written are dropped and counted: a
// slow trace must not slow the transfers, or it would show others than there
// are without it.
package trace

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Config says what is traced, and to where.
type Config struct {
	// Text and Pcap are where the two forms go; nil where one is not wanted.
	// Each Write has whole lines, or whole blocks. They are written from the
	// tracer's goroutine, and never closed.
	Text, Pcap io.Writer

	// Only are the peers to trace; none means all. IPv4 peers match IPv4
	// prefixes, however the socket presents them, and zones do not count.
	Only []netip.Prefix

	// HexBytes is how much of each packet Text shows in hexadecimal below its
	// line, from its beginning; MaxDatagram shows everything. Pcap has every
	// packet whole.
	HexBytes int

	// Queue is how many bytes may wait to be written, counting 128 more for
	// each packet; 0 means 4 MiB, and fewer than the longest datagram needs
	// are taken for that. The tracer uses four times as much at the most.
	Queue int
}

const (
	defaultQueue = 4 << 20 // bytes: 34 ms at 1 Gb/s, thousands of packets of any other size
	packetCost   = 128     // bytes that a queued packet counts beside its data; it takes about as much memory

	// flushBytes is when a sink is written before the queue is empty, in
	// bytes: a large part of what a pipe takes at once.
	flushBytes = 32 << 10

	// closeGrace is how long Close waits for writers that do not take what is
	// queued: a terminal that is stopped, a pipe without a reader.
	closeGrace = 5 * time.Second
)

func (c Config) queue() int {
	if c.Queue == 0 {
		return defaultQueue
	}
	return max(c.Queue, MaxDatagram+packetCost)
}

// A Tracer records packets. Its methods may be called from any goroutine.
type Tracer struct {
	only  []netip.Prefix
	bound int           // of each batch, in bytes
	wake  chan struct{} // holds one: the batch is no longer empty, or Close was called
	done  chan struct{} // closed when the goroutine ends

	stopped   atomic.Bool // nothing more is traced: closed, or no sink is left
	abandoned atomic.Bool // Close has given up: what is left is not written

	mu     sync.Mutex
	filled batch // what the goroutine takes next
	lost   int64 // packets dropped since New
	unsaid int64 // packets dropped since the last one queued
	closed bool
	syncs  []chan struct{} // of those who wait for what is in filled

	// The fields below belong to the goroutine; the sinks' errors to Close,
	// once done is closed.
	taken   batch
	writing []chan struct{} // of those who wait for what is in taken
	sinks   []*sink
}

// A batch is packets that wait to be written. Two of them take turns, so that
// recording allocates nothing once they have grown.
type batch struct {
	packets []queued
	data    []byte // the packets' data, one behind the other
}

// size is what the batch counts against the bound.
func (b *batch) size() int { return len(b.data) + packetCost*len(b.packets) }

func (b *batch) reset() { b.packets, b.data = b.packets[:0], b.data[:0] }

// New starts a tracer, which has to be closed.
func New(c Config) *Tracer {
	t := &Tracer{
		only:  append([]netip.Prefix(nil), c.Only...),
		bound: c.queue(),
		wake:  make(chan struct{}, 1),
		done:  make(chan struct{}),
	}
	// All of it now, for growing would move what queued packets refer to. The
	// system gives the memory only as it is used.
	t.filled.data = make([]byte, 0, t.bound)
	t.taken.data = make([]byte, 0, t.bound)
	if c.Text != nil {
		t.sinks = append(t.sinks, &sink{name: "text", w: c.Text, form: text{hexBytes: max(c.HexBytes, 0)}})
	}
	if c.Pcap != nil {
		t.sinks = append(t.sinks, &sink{name: "pcapng", w: c.Pcap, form: pcapng{}})
	}
	t.stopped.Store(len(t.sinks) == 0)
	go t.run()
	return t
}

// Wants reports whether Record would look at a packet of this peer. It costs
// a comparison for each prefix of Config.Only; callers may ask to save
// themselves work.
func (t *Tracer) Wants(peer netip.AddrPort) bool {
	if t.stopped.Load() {
		return false
	}
	if len(t.only) == 0 {
		return true
	}
	// A prefix has no zone, and contains no address that has one.
	addr := peer.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(t.only, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// Record queues a packet, if its peer is traced. It never waits: if the queue
// is full it drops the packet and counts it. The data is copied, up to
// MaxDatagram bytes, so it need be valid during the call only. After Close it
// does nothing.
func (t *Tracer) Record(p Packet) {
	if !t.Wants(p.Peer) {
		return
	}
	p.Data = p.Data[:min(len(p.Data), MaxDatagram)]
	if t.enqueue(p) {
		t.signal()
	}
}

// enqueue reports whether the goroutine has to be woken.
func (t *Tracer) enqueue(p Packet) (first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	b := &t.filled
	if b.size()+len(p.Data)+packetCost > t.bound {
		t.lost++
		t.unsaid++
		return false
	}
	start := len(b.data)
	b.data = append(b.data, p.Data...)
	p.Data = b.data[start:]
	b.packets = append(b.packets, queued{Packet: p, lost: t.unsaid})
	t.unsaid = 0
	return len(b.packets) == 1
}

// signal wakes the goroutine. A signal that is still there will do.
func (t *Tracer) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Sync waits until all packets recorded before the call are written, so that what
// the caller writes to the same place stands behind them. It waits no longer than
// limit.
func (t *Tracer) Sync(limit time.Duration) {
	written := make(chan struct{})
	t.mu.Lock()
	t.syncs = append(t.syncs, written)
	t.mu.Unlock()
	t.signal()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-written:
	case <-t.done:
	case <-timer.C:
	}
}

// Lost returns how many packets were dropped because the queue was full.
func (t *Tracer) Lost() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

// Close writes what is queued and ends the trace, saying in it how many
// packets were not traced, if there were any. Its error reports writes that
// failed, then or before. It waits for the writers 5 s at most; if they have
// not taken everything by then, it gives up the rest and says so, and they may
// be in use until the Write that hangs returns. Closing again does nothing.
func (t *Tracer) Close() error {
	t.stopped.Store(true)
	t.mu.Lock()
	again := t.closed
	t.closed = true
	t.mu.Unlock()
	if again {
		return nil
	}
	t.signal()
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-t.done:
	case <-grace.C:
		t.abandoned.Store(true)
		return fmt.Errorf("close the trace: its output did not accept all of it within %v, so the end is missing", closeGrace)
	}
	var errs []error
	for _, s := range t.sinks {
		errs = append(errs, s.err)
	}
	return errors.Join(errs...)
}

// run writes batches until the tracer is closed and nothing is left.
func (t *Tracer) run() {
	defer close(t.done)
	t.each(func(s *sink) { s.buf = s.form.begin(s.buf) })
	for closed := false; !closed; {
		<-t.wake
		for {
			closed = t.take()
			if len(t.taken.packets) == 0 && len(t.writing) == 0 {
				break
			}
			t.write()
			for _, written := range t.writing {
				close(written)
			}
		}
	}
	lost := t.Lost()
	t.each(func(s *sink) { s.buf = s.form.end(s.buf, lost) })
}

// take swaps the batches, and reports whether no more will come.
func (t *Tracer) take() (closed bool) {
	t.taken.reset()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.filled, t.taken = t.taken, t.filled
	t.writing, t.syncs = t.syncs, nil
	return t.closed
}

// write writes the batch taken.
func (t *Tracer) write() {
	t.each(func(s *sink) {
		for i := range t.taken.packets {
			s.buf = s.form.packet(s.buf, &t.taken.packets[i])
			if len(s.buf) >= flushBytes && !s.flush(&t.abandoned) {
				return
			}
		}
	})
}

// each lets f fill the buffer of every sink that works, and writes it.
func (t *Tracer) each(f func(*sink)) {
	working := false
	for _, s := range t.sinks {
		if s.err == nil {
			f(s)
			working = s.flush(&t.abandoned) || working
		}
	}
	if !working {
		t.stopped.Store(true)
	}
}

// A sink is a form and where it goes.
type sink struct {
	name string
	w    io.Writer
	form form
	buf  []byte // whole lines or blocks not yet written
	err  error  // the first failure: nothing is written after it
}

var errAbandoned = errors.New("given up by Close")

// flush writes the buffer and reports whether the sink still works.
func (s *sink) flush(abandoned *atomic.Bool) bool {
	err := s.err
	if err == nil && abandoned.Load() {
		err = errAbandoned
	}
	if err == nil && len(s.buf) > 0 {
		var n int
		n, err = s.w.Write(s.buf)
		if err == nil && n < len(s.buf) {
			err = io.ErrShortWrite
		}
	}
	s.buf = s.buf[:0]
	if err != nil && s.err == nil {
		s.err = fmt.Errorf("write the %s trace: %w; it ends there, and transfers continue", s.name, err)
	}
	return s.err == nil
}
