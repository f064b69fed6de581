package webclient

import (
	"context"
	"sync/atomic"
)

// connLimit bounds the connections of a client. A request over HTTP/1.1 holds
// one until its answer is closed. Over HTTP/2 one connection is for all requests
// but those that want one of their own.
type connLimit struct {
	slots  chan struct{}
	shared chan struct{} // closed once the server has answered over HTTP/2
	http2  atomic.Bool   // it has
}

func newConnLimit(n int) *connLimit {
	return &connLimit{slots: make(chan struct{}, n), shared: make(chan struct{})}
}

// A connSlot is the right of one request to a connection.
type connSlot struct {
	of   *connLimit
	held atomic.Bool
}

// release gives the right back. To do so again does nothing.
func (s *connSlot) release() {
	if s.held.CompareAndSwap(true, false) {
		<-s.of.slots
	}
}

// take waits for a connection. own says that the request wants one of its own.
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

// tryTake is take that does not wait. It is not ok if there is none.
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

// answered notes which version of HTTP the server speaks. The connection of the
// first answer over HTTP/2 stays for all others.
func (s *connSlot) answered(major int) {
	if major == 2 && !s.of.http2.Swap(true) {
		s.held.Store(false)
		close(s.of.shared)
	}
}

// ownOnes reports whether a request can have a connection of its own, besides the
// one for all others.
func (c *connLimit) ownOnes() bool { return !c.http2.Load() || cap(c.slots) > 1 }
