package tcp

import (
	"iter"
	"net"
	"net/netip"
	"sync"
	"time"
)

// A roster has the connections of one acceptor: a list of the live ones, and some to reuse.
type roster struct {
	shared     *shared
	left       func(source netip.Addr) // called when a connection has ended
	firstBytes func(c *Conn, b []byte) // may be nil

	mu       sync.Mutex
	live     conn  // mu: the ring's head; its next is the oldest
	free     *conn // mu: linked by next
	frees    int   // mu
	conns    int   // mu: in the ring
	accepted uint64
}

// maxFree is how many connections are kept for reuse: some 600 bytes each.
const maxFree = 1024

func newRoster(sh *shared, left func(netip.Addr), firstBytes func(*Conn, []byte)) *roster {
	o := &roster{shared: sh, left: left, firstBytes: firstBytes}
	o.live.next, o.live.prev = &o.live, &o.live
	return o
}

func (o *roster) sayFirst(c *Conn, b []byte) {
	if o.firstBytes != nil {
		o.firstBytes(c, b)
	}
}

// take returns a conn for the next connection.
func (o *roster) take() *conn {
	o.mu.Lock()
	c := o.free
	if c != nil {
		o.free = c.next
		o.frees--
	}
	o.mu.Unlock()
	if c == nil {
		c = &conn{home: o}
		c.shared = o.shared
	}
	return c
}

// enter makes c, which has been accepted, a live connection.
func (o *roster) enter(c *conn) {
	c.onWait, c.prefix = nil, nil
	c.ended.Store(nil)
	c.remote.Store(nil)
	c.local.Store(nil)
	now := o.shared.clock.Load()
	c.began.Store(now)
	c.moved.Store(now)
	c.enter(o.shared.firstPhase)
	c.begin()
	o.mu.Lock()
	c.putBefore(&o.live)
	o.conns++
	o.accepted++
	o.mu.Unlock()
}

// leave removes a connection, and keeps c for reuse. Its state says closed until then, so
// that no old handle can use it.
func (o *roster) leave(c *conn) {
	o.mu.Lock()
	c.takeOff()
	o.conns--
	source := c.source
	if o.frees < maxFree {
		c.next, o.free = o.free, c
		o.frees++
	}
	o.mu.Unlock()
	o.left(source)
}

// putBefore inserts c into the ring before another, and takeOff removes it. mu is held.
func (c *conn) putBefore(other *conn) {
	c.prev, c.next = other.prev, other
	c.prev.next, c.next.prev = c, c
}

func (c *conn) takeOff() {
	c.prev.next, c.next.prev = c.next, c.prev
	c.next, c.prev = nil, nil
}

// counts returns how many connections there are, and how many there were in all.
func (o *roster) counts() (live int, accepted uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.conns, o.accepted
}

// sweepBatch is how many connections are held at a time to end them, which is done without
// mu.
const sweepBatch = 256

// each calls f for each live connection, with mu held. If f reports true, each calls then
// without mu.
func (o *roster) each(f func(*conn) bool, then func(*conn)) {
	var batch [sweepBatch]*conn
	for {
		n := 0
		o.mu.Lock()
		for c := o.live.next; c != &o.live && n < len(batch); c = c.next {
			if f(c) && c.hold() {
				batch[n] = c
				n++
			}
		}
		o.mu.Unlock()
		for _, c := range batch[:n] {
			then(c)
			c.drop()
		}
		if n < len(batch) {
			return
		}
	}
}

// cut ends all connections, and returns how many.
func (o *roster) cut(err error) (n int) {
	o.each(func(c *conn) bool { return c.ended.Load() == nil }, func(c *conn) {
		if c.end(err, &o.shared.counts.cut) {
			n++
		}
	})
	return n
}

// nudge wakes handlers that wait for a request, to check whether the server ends.
func (o *roster) nudge() {
	var seen map[*conn]bool
	o.each(func(c *conn) bool { return c.idle.Load() && !seen[c] }, func(c *conn) {
		if seen == nil {
			seen = map[*conn]bool{}
		}
		seen[c] = true
		c.sysNudge()
	})
}

// sweep ends the connections that ran out of time.
func (o *roster) sweep(now int64) {
	t := &o.shared.ticks
	o.each(func(c *conn) bool { return c.ended.Load() == nil && t.expired(&c.status, now) != nil }, func(c *conn) {
		if err := t.expired(&c.status, now); err != nil {
			c.end(err, &o.shared.counts.timedOut)
		}
	})
}

// A Peer is one live connection.
type Peer struct {
	Remote, Local net.Addr
	Since         time.Duration // since it was accepted, to a second or so
	Waits         bool          // in WaitReadable, for another request
}

// peerBatch is how many connections are read at a time. The list may contain some that
// have just ended.
const peerBatch = 64

// peers yields the live connections. None is held while the caller looks at one, since it
// would stay open meanwhile.
func (o *roster) peers() iter.Seq[Peer] {
	return func(yield func(Peer) bool) {
		// Two marks in the ring: the position of the list, and its end, since new
		// connections may come faster than the caller takes them.
		var at, end conn
		at.state.Store(closedBit) // so that no call holds them
		end.state.Store(closedBit)
		o.mu.Lock()
		at.putBefore(o.live.next)
		end.putBefore(&o.live)
		o.mu.Unlock()
		defer func() {
			o.mu.Lock()
			defer o.mu.Unlock()
			at.takeOff()
			end.takeOff()
		}()
		var held [peerBatch]*conn
		var peers [peerBatch]Peer
		for {
			n := 0
			o.mu.Lock()
			c := at.next
			for ; c != &end && n < len(held); c = c.next {
				if c.hold() {
					held[n] = c
					n++
				}
			}
			at.takeOff()
			at.putBefore(c)
			o.mu.Unlock()
			for i, c := range held[:n] {
				peers[i] = Peer{
					Remote: cachedAddr(&c.remote, c.sysRemoteAddr).Addr, Local: cachedAddr(&c.local, c.sysLocalAddr).Addr,
					Since: c.shared.ago(c.began.Load()), Waits: c.idle.Load(),
				}
				c.drop()
			}
			for _, p := range peers[:n] {
				if !yield(p) {
					return
				}
			}
			if n < len(held) {
				return
			}
		}
	}
}
