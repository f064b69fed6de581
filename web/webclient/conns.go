package webclient

import (
	"context"
	"sync/atomic"
)

// connLimit bounds the connections of a client. A request over HTTP/1.1 holds one until its answer
// is closed. Over HTTP/2 all requests share one connection, except requests that need their own.
type connLimit struct {
	slots  chan struct{} // has an element for each connection in use
	shared chan struct{} // closed once the server has answered over HTTP/2
	http2  atomic.Bool   // the server has answered over HTTP/2
}

func newConnLimit(n int) *connLimit {
	return &connLimit{slots: make(chan struct{}, n), shared: make(chan struct{})}
}

// A connSlot allows one request to use a connection. held means that it has taken an element of
// connLimit.slots.
type connSlot struct {
	of   *connLimit
	held atomic.Bool
}

// release gives the slot back. Further calls do nothing.
func (s *connSlot) release() {
	if s.held.CompareAndSwap(true, false) {
		<-s.of.slots
	}
}

// take waits for a free connection. The argument own says that the request needs its own connection,
// even over HTTP/2.
func (c *connLimit) take(ctx context.Context, own bool) (*connSlot, error) {
	if s, ok := c.tryTake(own); ok {
		return s, nil
	}
	shared := c.shared
	if own {
		shared = nil
	}
	s := &connSlot{of: c}
	select {
	case c.slots <- struct{}{}:
		s.held.Store(true)
	case <-shared:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return s, nil
}

// tryTake is like take, but does not wait. ok is false if no connection is free.
func (c *connLimit) tryTake(own bool) (s *connSlot, ok bool) {
	s = &connSlot{of: c}
	if c.http2.Load() && !own {
		return s, true
	}
	select {
	case c.slots <- struct{}{}:
		s.held.Store(true)
		return s, true
	default:
		return nil, false
	}
}

// answered records the HTTP version of an answer. After the first HTTP/2 answer, its connection is
// shared by all other requests, so its slot is never released.
func (s *connSlot) answered(major int) {
	if major == 2 && !s.of.http2.Swap(true) {
		s.held.Store(false)
		close(s.of.shared)
	}
}

// ownOnes reports whether a request can have its own connection. Over HTTP/2 that takes a slot besides
// the one of the shared connection.
func (c *connLimit) ownOnes() bool { return !c.http2.Load() || cap(c.slots) > 1 }
