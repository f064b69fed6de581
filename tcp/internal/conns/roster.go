package conns

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// A Roster holds the connections of one listening socket: a list of the live ones, and some to
// reuse.
type Roster struct {
	group  *Group
	left   func(source netip.Addr) // called when a connection has ended
	leaves func(*Conn)             // leave, made once

	mu       sync.Mutex
	live     Conn  // mu: the ring's head; next is the oldest connection
	free     *Conn // mu: linked by next
	frees    int   // mu
	conns    int   // mu: in the ring
	accepted uint64
}

// maxFree is how many connections are kept for reuse: some 600 bytes each.
const maxFree = 1024

// NewRoster returns an empty roster. left is called when a connection has ended.
func NewRoster(g *Group, left func(source netip.Addr)) *Roster {
	o := &Roster{group: g, left: left}
	o.leaves = o.leave
	o.live.next, o.live.prev = &o.live, &o.live
	return o
}

// Take returns a Conn for the next connection.
func (o *Roster) Take() *Conn {
	o.mu.Lock()
	c := o.free
	if c != nil {
		o.free = c.next
		o.frees--
	}
	o.mu.Unlock()
	if c == nil {
		c = &Conn{leave: o.leaves}
		c.group = o.group
	}
	return c
}

// Enter makes c, which has been accepted, a live connection.
func (o *Roster) Enter(c *Conn) {
	c.onWait, c.prefix = nil, nil
	c.ended.Store(nil)
	c.remote.Store(nil)
	c.local.Store(nil)
	now := o.group.clock.Load()
	c.began.Store(now)
	c.moved.Store(now)
	c.enter(o.group.firstPhase)
	c.begin()
	o.mu.Lock()
	c.prev, c.next = o.live.prev, &o.live
	c.prev.next, c.next.prev = c, c
	o.conns++
	o.accepted++
	o.mu.Unlock()
}

// leave removes a connection, and keeps c for reuse. Until then its state is closed, so that no old
// handle can use it.
func (o *Roster) leave(c *Conn) {
	o.mu.Lock()
	c.prev.next, c.next.prev = c.next, c.prev
	c.next, c.prev = nil, nil
	o.conns--
	source := c.Source
	if o.frees < maxFree {
		c.next, o.free = o.free, c
		o.frees++
	}
	o.mu.Unlock()
	o.left(source)
}

// Counts returns the number of live connections, and the number of all connections so far.
func (o *Roster) Counts() (live int, accepted uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.conns, o.accepted
}

// held returns the live connections for which f reports true. The caller drops each.
func (o *Roster) held(f func(*Conn) bool) (all []*Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for c := o.live.next; c != &o.live; c = c.next {
		if f(c) && c.Take(c.Gen()) {
			all = append(all, c)
		}
	}
	return all
}

// Cut ends all connections, and returns how many of them did not linger.
func (o *Roster) Cut(err error) (n int) {
	for _, c := range o.held(func(c *Conn) bool { e := c.ended.Load(); return e == nil || e == lingering }) {
		if c.End(err, &o.group.Counts.Cut) {
			n++
		} else {
			c.Shutdown()
		}
		c.Drop()
	}
	return n
}

// Nudge wakes handlers that wait for a request, so that they check whether the server is ending.
func (o *Roster) Nudge() {
	for _, c := range o.held(func(c *Conn) bool { return c.idle.Load() }) {
		c.Nudge()
		c.Drop()
	}
}

// Expire ends the connections that have run out of time at a tick.
func (o *Roster) Expire(now int64) {
	for _, c := range o.held(func(c *Conn) bool { return c.ended.Load() == nil && c.expired(now) != nil }) {
		if err := c.expired(now); err != nil {
			c.End(err, &o.group.Counts.TimedOut)
		}
		c.Drop()
	}
}

// A Peer is one live connection.
type Peer struct {
	Remote, Local net.Addr
	Since         time.Duration // since it was accepted
	Waits         bool          // for another request
}

// Peers returns the live connections. It does not hold them when it returns, since that would keep
// them open.
func (o *Roster) Peers() (all []Peer) {
	for _, c := range o.held(func(*Conn) bool { return true }) {
		all = append(all, Peer{
			Remote: c.RemoteAddr().Addr, Local: c.LocalAddr().Addr,
			Since: c.group.ago(c.began.Load()), Waits: c.idle.Load(),
		})
		c.Drop()
	}
	return all
}
