package conns

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// A Roster holds the connections of one listening socket: a ring of the live connections, and a
// list of free Conns for reuse.
type Roster struct {
	group  *Group
	left   func(source netip.Addr) // called when a connection has ended, with the Source of its Conn
	leaves func(*Conn)             // the method value of leave, created once

	mu       sync.Mutex
	live     Conn  // head of the ring of live connections; its next is the oldest one. Guarded by mu
	free     *Conn // list of free Conns, linked by next. Guarded by mu
	frees    int   // length of the free list. Guarded by mu
	conns    int   // number of connections in the ring. Guarded by mu
	accepted uint64
}

// maxFree is how many free Conns are kept for reuse, of some 600 bytes each.
const maxFree = 1024

// NewRoster returns an empty roster. left is called when a connection has ended, with the address
// under which the connection was counted.
func NewRoster(g *Group, left func(source netip.Addr)) *Roster {
	o := &Roster{group: g, left: left}
	o.leaves = o.leave
	o.live.next, o.live.prev = &o.live, &o.live
	return o
}

// Take returns a free or new Conn for the next connection.
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

// Enter adds c, which has been accepted, to the live connections, and starts its next generation.
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

// leave removes a connection from the ring, and keeps its Conn for reuse. Until Enter its state
// stays closed, so that no old handle can use it.
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

// Counts returns the number of live connections, and the number of connections accepted so far.
func (o *Roster) Counts() (live int, accepted uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.conns, o.accepted
}

// held returns the live connections for which f returns true, and begins a use of each, so that none
// of them is reused. The caller must call Drop for each.
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

// Cut ends all connections. It returns how many of them their handlers had not closed yet.
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

// Nudge wakes the handlers that wait for a request, so that they notice that the server is ending.
func (o *Roster) Nudge() {
	for _, c := range o.held(func(c *Conn) bool { return c.idle.Load() }) {
		c.Nudge()
		c.Drop()
	}
}

// Expire ends the connections that exceed a timeout. `now` is the number of the current tick.
func (o *Roster) Expire(now int64) {
	for _, c := range o.held(func(c *Conn) bool { return c.ended.Load() == nil && c.expired(now) != nil }) {
		if err := c.expired(now); err != nil {
			c.End(err, &o.group.Counts.TimedOut)
		}
		c.Drop()
	}
}

// A Peer describes a live connection.
type Peer struct {
	Remote, Local net.Addr
	Since         time.Duration // time since the connection was accepted
	Waits         bool          // the handler waits for another request
}

// Peers returns the live connections at this moment. It does not keep them open.
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
