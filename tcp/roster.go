package tcp

import (
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
	c.prev, c.next = o.live.prev, &o.live
	c.prev.next, c.next.prev = c, c
	o.conns++
	o.accepted++
	o.mu.Unlock()
}

// leave removes a connection, and keeps c for reuse. Its state says closed until then, so
// that no old handle can use it.
func (o *roster) leave(c *conn) {
	o.mu.Lock()
	c.prev.next, c.next.prev = c.next, c.prev
	c.next, c.prev = nil, nil
	o.conns--
	source := c.source
	if o.frees < maxFree {
		c.next, o.free = o.free, c
		o.frees++
	}
	o.mu.Unlock()
	o.left(source)
}

// counts returns how many connections there are, and how many there were in all.
func (o *roster) counts() (live int, accepted uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.conns, o.accepted
}

// those returns the live connections for which f reports true. They are held: the caller
// drops each.
func (o *roster) those(f func(*conn) bool) (held []*conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for c := o.live.next; c != &o.live; c = c.next {
		if f(c) && c.hold() {
			held = append(held, c)
		}
	}
	return held
}

// cut ends all connections, and returns how many. It does not count those that linger.
func (o *roster) cut(err error) (n int) {
	for _, c := range o.those(func(c *conn) bool { e := c.ended.Load(); return e == nil || e == lingering }) {
		if c.end(err, &o.shared.counts.cut) {
			n++
		} else {
			c.sysShutdown()
		}
		c.drop()
	}
	return n
}

// nudge wakes handlers that wait for a request, to check whether the server ends.
func (o *roster) nudge() {
	for _, c := range o.those(func(c *conn) bool { return c.idle.Load() }) {
		c.sysNudge()
		c.drop()
	}
}

// sweep ends the connections that ran out of time.
func (o *roster) sweep(now int64) {
	t := &o.shared.ticks
	for _, c := range o.those(func(c *conn) bool { return c.ended.Load() == nil && t.expired(&c.status, now) != nil }) {
		if err := t.expired(&c.status, now); err != nil {
			c.end(err, &o.shared.counts.timedOut)
		}
		c.drop()
	}
}

// A Peer is one live connection.
type Peer struct {
	Remote, Local net.Addr
	Since         time.Duration // since it was accepted, to a second or so
	Waits         bool          // in WaitReadable, for another request
}

// peers returns the live connections. None is held when it returns, since it would stay
// open meanwhile.
func (o *roster) peers() (all []Peer) {
	for _, c := range o.those(func(*conn) bool { return true }) {
		all = append(all, Peer{
			Remote: cachedAddr(&c.remote, c.sysRemoteAddr).Addr, Local: cachedAddr(&c.local, c.sysLocalAddr).Addr,
			Since: c.shared.ago(c.began.Load()), Waits: c.idle.Load(),
		})
		c.drop()
	}
	return all
}
