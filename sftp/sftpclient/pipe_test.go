package sftpclient

import (
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/race"
)

// A netLink describes a path to a server. Each byte arrives after the time latency, and bytes
// arrive no faster than rate. In a synctest bubble, the time is virtual.
type netLink struct {
	latency time.Duration // one way
	rate    int64         // bytes a second; 0 means no limit
	shared  int64         // bytes a second of all streams of a connection, each way; 0 means no limit
	window  int           // unread bytes that a stream may have; 0 means 2 MiB, as in SSH
}

func (k netLink) roundTrip() time.Duration { return 2 * k.latency }

// A netRoad is the capacity that all streams of one connection share, in one direction.
type netRoad struct {
	rate int64 // bytes a second

	mu   sync.Mutex
	free time.Time // time at which all bytes so far have left; guarded by mu
}

// send sends n bytes, and returns the time at which they have left.
func (r *netRoad) send(n int) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); r.free.Before(now) {
		r.free = now
	}
	r.free = r.free.Add(time.Duration(int64(n) * int64(time.Second) / r.rate))
	return r.free
}

// A netPipe is one direction of a stream.
type netPipe struct {
	link *netLink
	road *netRoad // nil if the stream does not share the path

	mu      sync.Mutex
	changed sync.Cond
	queue   []netParcel // sorted by arrival time; guarded by mu
	spare   [][]byte    // buffers to reuse, because new memory is slow with the race detector; guarded by mu
	leaves  time.Time   // time at which the last parcel has left; guarded by mu
	unread  int         // number of bytes that count against the window; guarded by mu
	total   int64       // number of bytes written so far; guarded by mu
	cutAt   int64       // number of bytes after which nothing arrives; 0 means never; guarded by mu
	closed  bool        // no more bytes can be written; guarded by mu
	broken  bool        // no more bytes can be read either; guarded by mu
}

type netParcel struct {
	at   time.Time
	b    []byte
	read int // bytes read
}

// parcel returns a copy of b. The caller holds mu.
func (p *netPipe) parcel(b []byte) []byte {
	var c []byte
	if last := len(p.spare) - 1; last >= 0 {
		c, p.spare = p.spare[last][:0], p.spare[:last]
	}
	c = slices.Grow(c, len(b))[:len(b)]
	race.Copy(c, b)
	return c
}

func newNetPipe(k *netLink) *netPipe {
	p := &netPipe{link: k}
	p.changed.L = &p.mu
	return p
}

var errNetPipe = errors.New("pipe is broken")

func (p *netPipe) Write(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	window := p.link.window
	if window == 0 {
		window = 2 << 20
	}
	for len(b) > 0 {
		for p.unread >= window && !p.closed {
			p.changed.Wait()
		}
		if p.closed {
			return n, errNetPipe
		}
		some := min(len(b), window-p.unread, 32<<10)
		now := time.Now()
		if p.leaves.Before(now) {
			p.leaves = now
		}
		if p.link.rate > 0 {
			p.leaves = p.leaves.Add(time.Duration(int64(some) * int64(time.Second) / p.link.rate))
		}
		if p.road != nil {
			p.leaves = p.road.send(some)
		}
		keep := some
		if p.cutAt > 0 {
			keep = int(min(int64(some), max(0, p.cutAt-p.total)))
		}
		if keep > 0 {
			p.queue = append(p.queue, netParcel{at: p.leaves.Add(p.link.latency), b: p.parcel(b[:keep])})
		}
		p.total += int64(some)
		p.unread += some
		n, b = n+some, b[some:]
		p.changed.Broadcast()
		if p.cutAt > 0 && p.total >= p.cutAt {
			p.closed = true
		}
	}
	return n, nil
}

func (p *netPipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.broken:
			return 0, errNetPipe
		case len(p.queue) > 0:
			if wait := time.Until(p.queue[0].at); wait > 0 {
				p.mu.Unlock()
				time.Sleep(wait)
				p.mu.Lock()
				continue
			}
			first := &p.queue[0]
			n := race.Copy(b, first.b[first.read:])
			if first.read += n; first.read == len(first.b) {
				p.spare = append(p.spare, first.b)
				p.queue = p.queue[1:]
			}
			p.credit(n)
			return n, nil
		case p.closed:
			return 0, io.EOF
		}
		p.changed.Wait()
	}
}

// credit lets the sender send n more bytes, after the time that the notification takes. The caller
// holds mu.
func (p *netPipe) credit(n int) {
	if p.link.latency == 0 {
		p.unread -= n
		p.changed.Broadcast()
		return
	}
	time.AfterFunc(p.link.latency, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.unread -= n
		p.changed.Broadcast()
	})
}

// end closes the pipe for the writer. With now, it closes the pipe for the reader too, and drops
// all bytes in flight.
func (p *netPipe) end(now bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.broken = p.broken || now
	p.changed.Broadcast()
}

// A netStream is one end of a stream.
type netStream struct {
	in, out *netPipe
}

func newNetStreams(k *netLink) (a, b *netStream) {
	there, back := newNetPipe(k), newNetPipe(k)
	return &netStream{back, there}, &netStream{there, back}
}

func (s *netStream) Read(p []byte) (int, error)  { return s.in.Read(p) }
func (s *netStream) Write(p []byte) (int, error) { return s.out.Write(p) }

// Close ends the stream. The other end can still read the bytes in flight, but this end can read
// nothing more.
func (s *netStream) Close() error {
	s.out.end(false)
	s.in.end(true)
	return nil
}
