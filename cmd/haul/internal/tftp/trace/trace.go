// Package trace records TFTP packets: as text, with a line for each packet, and as pcapng for
// Wireshark.
//
// A [Tracer] takes packets from any goroutine without waiting, and writes them from its own
// goroutine:
//
//	t := trace.New(trace.Config{Text: os.Stderr, Pcap: file})
//	t.Record(trace.Packet{Time: now, Peer: peer, Local: local, Data: datagram})
//	err := t.Close() // the trace is complete, unless it says otherwise
//
// Packets that arrive faster than they can be written are dropped and counted. A slow trace must
// not slow the transfers down, because it would change what it records.
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

// A Config says what to trace, and where to write it.
type Config struct {
	// Text and Pcap receive the two forms of the trace; a form whose writer is nil is omitted. Each
	// call of Write passes whole lines, or whole blocks, and comes from the tracer's goroutine. The
	// tracer does not close the writers.
	Text, Pcap io.Writer

	// Only lists the peers to trace; an empty list means all. IPv4 prefixes match IPv4 peers in both
	// forms of their addresses. Zones are ignored.
	Only []netip.Prefix

	// HexBytes is how many bytes from the beginning of each packet Text shows in hexadecimal below
	// its line; MaxDatagram shows all. Pcap always has the whole packet.
	HexBytes int

	// Queue is how many bytes may wait to be written. Each packet counts as its length plus 128
	// bytes. 0 means 4 MiB. A value below the length of the longest datagram means that length. The
	// tracer uses at most four times as much memory.
	Queue int
}

const (
	// defaultQueue is in bytes: 34 ms of traffic at 1 Gb/s, or thousands of packets unless they are
	// of the largest sizes.
	defaultQueue = 4 << 20
	// packetCost is the number of bytes that a queued packet counts in addition to its data: about
	// the memory that it needs.
	packetCost = 128

	// flushBytes is how many bytes a sink buffers while the queue is not empty. It is a large part
	// of the bytes that a pipe takes at once.
	flushBytes = 32 << 10

	// closeGrace is how long Close waits for a writer that blocks, such as a stopped terminal or a
	// pipe from which no process reads.
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
	bound int           // largest size of each batch, in bytes
	wake  chan struct{} // has room for one signal: the batch is no longer empty, or Close was called
	done  chan struct{} // closed when the goroutine exits

	stopped   atomic.Bool // no more packets are traced, because the tracer is closed or no sink is left
	abandoned atomic.Bool // Close has given up, so the remaining packets are not written

	mu     sync.Mutex
	filled batch           // the packets that the goroutine will take next; guarded by mu
	lost   int64           // packets dropped since New; guarded by mu
	unsaid int64           // packets dropped since the last packet was queued; guarded by mu
	closed bool            // Close was called; guarded by mu
	syncs  []chan struct{} // one for each call of Sync that waits for filled to be written; guarded by mu

	// The goroutine owns the fields below, until done is closed.
	taken   batch
	writing []chan struct{} // one for each call of Sync that waits for taken to be written
	sinks   []*sink
}

// A batch holds packets that wait to be written. Two batches take turns, so that recording allocates
// nothing once they have grown.
type batch struct {
	packets []queued
	data    []byte // data of all packets
}

// size returns how many bytes of the bound the batch uses.
func (b *batch) size() int { return len(b.data) + packetCost*len(b.packets) }

func (b *batch) reset() { b.packets, b.data = b.packets[:0], b.data[:0] }

// New starts a tracer. The caller must close it.
func New(c Config) *Tracer {
	t := &Tracer{
		only:  append([]netip.Prefix(nil), c.Only...),
		bound: c.queue(),
		wake:  make(chan struct{}, 1),
		done:  make(chan struct{}),
	}
	// Allocate the whole bound now. If the slice grew, the data of queued packets would move. The
	// system provides the memory only when it is used.
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

// Wants reports whether Record would record a packet of this peer. It compares the address with each
// prefix of Config.Only. Callers may use it to avoid work.
func (t *Tracer) Wants(peer netip.AddrPort) bool {
	if t.stopped.Load() {
		return false
	}
	if len(t.only) == 0 {
		return true
	}
	// Compare without the zone: no prefix contains an address that has a zone.
	addr := peer.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(t.only, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// Record queues a packet, if its peer is traced. It never waits: if the queue is full, it drops the
// packet and counts it. It copies up to MaxDatagram bytes of data. After Close it does nothing.
func (t *Tracer) Record(p Packet) {
	if !t.Wants(p.Peer) {
		return
	}
	p.Data = p.Data[:min(len(p.Data), MaxDatagram)]
	if t.enqueue(p) {
		t.signal()
	}
}

// enqueue queues a packet, and reports whether the goroutine must be woken.
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

// signal wakes the goroutine, unless an earlier signal is still pending.
func (t *Tracer) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Sync waits until all packets recorded before the call are written, so that the caller can append
// its own text after them. It waits no longer than limit.
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

// Close writes all queued packets and ends the trace, with the number of dropped packets if there
// are any. Its error reports all writes that have failed. Close waits at most 5 s for the writers;
// then it gives up and returns an error. A writer may then still be in use, until its blocked Write
// returns. Further calls do nothing.
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

// run writes batches until the tracer is closed and all packets are written.
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

// take swaps the batches, and reports whether no more packets will be added.
func (t *Tracer) take() (closed bool) {
	t.taken.reset()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.filled, t.taken = t.taken, t.filled
	t.writing, t.syncs = t.syncs, nil
	return t.closed
}

// write writes the batch that was taken.
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

// each lets f fill the buffer of every working sink, and writes the buffer.
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

// A sink writes the trace in one form, text or pcapng, to one writer.
type sink struct {
	name string
	w    io.Writer
	form form
	buf  []byte // whole lines or blocks that are not yet written
	err  error  // the first failure, after which nothing is written
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
