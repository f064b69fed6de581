package mux

import (
	"context"
	"fmt"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// A Call is a request that carries no file data and has one answer.
type Call struct {
	Build func(b []byte, id uint32) []byte // appends the request
	Take  func(p *wire.Reply) error        // parses the answer, whose memory is reused afterwards

	Session *Session // the session that must carry the call; nil if any session may
	Slow    bool     // the answer may take long, as for a hash
	Again   bool     // the request may be executed twice, so another session may repeat it

	// Behind sends the call after the file data that is queued in its session. Other calls are sent
	// before that data.
	Behind bool

	// Orphan is called if the call succeeds although nobody waits for its result any more. It can
	// release what the call created, such as a handle. It runs under the lock of the mux.
	Orphan func()

	// Guarded by mu:
	calls *calls
	then  func(err error) // called once with the result; nil if nobody waits for the result any more
	at    *Session        // the session to which the call was sent
	state callState
	tries int        // number of sessions that ended before they returned the answer
	done  chan error // receives the result, for await
}

// A callState is the progress of a call.
type callState uint8

const (
	callNew callState = iota
	callQueued
	callSent
	callAnswered // the answer is being read
	callEnded
)

// end completes a call: it passes the result err to the function `then`, or calls Orphan.
func (k *Call) end(err error) {
	k.state = callEnded
	if k.then != nil {
		k.then(err)
	} else if err == nil && k.Orphan != nil {
		k.Orphan()
	}
}

// At returns the session to which the call was sent, or nil.
func (k *Call) At() *Session { return k.at }

// sessionLost is called when the call's session has ended before the answer arrived. It queues the
// call again if Again is set, and fails it otherwise.
func (k *Call) sessionLost(inner uint32, err error) {
	c := k.calls
	c.ops.Lost(inner)
	k.tries++
	if k.Again && k.Session == nil && askAgain(err, k.tries) && c.err == nil && (k.then != nil || k.Orphan != nil) {
		c.submit(k)
		return
	}
	k.end(fmt.Errorf("%w: %w", ErrSessionLost, err))
}

// A Handle is a handle that the server returned. It is valid only in its session.
type Handle struct {
	Session *Session
	Handle  string
}

// minCalls is how many requests without data may be in flight until the best number has been
// measured.
const minCalls = 128

// calls queues and sends the requests without file data.
type calls struct {
	*core
	opener *opener
	pool   *pool
	table  *requestTable
	ops    *pipeline.Ops

	// Guarded by mu:
	waiting queue[*Call]  // calls that are not sent yet
	closing int           // number of unanswered CLOSEs whose results no caller waits for
	drained chan struct{} // closed to make drain check its condition again; nil if drain is not waiting
}

// submit sends a call as soon as possible.
func (c *calls) submit(k *Call) {
	if c.err != nil {
		k.end(c.err)
		return
	}
	k.calls, k.state = c, callQueued
	c.waiting.push(k)
	c.send(time.Now())
}

// send sends queued calls, as many as the limit for requests in flight allows.
func (c *calls) send(now time.Time) {
	for c.waiting.length() > 0 {
		k := c.waiting.items[c.waiting.head]
		s := k.Session
		if s == nil {
			if s = c.pool.idlest(); s == nil {
				c.opener.grow(1, 0)
				return
			}
		} else if s.err != nil {
			c.waiting.pop()
			k.end(fmt.Errorf("%w: %w", ErrSessionLost, s.err))
			continue
		}
		inner, ok := c.ops.Next(now)
		if !ok {
			return
		}
		c.waiting.pop()
		a := c.table.add(s, inner, k)
		a.sent = true
		k.state, k.at = callSent, s
		if k.Behind && s.bulk.length() > 0 {
			s.bulk.push(outgoing{k.Build(nil, a.id), noMemory{}})
		} else {
			s.text = k.Build(s.text, a.id)
		}
		s.expect(k.Slow)
		s.due.Signal()
	}
}

// failAll fails the calls that are still queued.
func (c *calls) failAll(err error) {
	for {
		k, ok := c.waiting.pop()
		if !ok {
			return
		}
		k.end(err)
	}
}

// start sends calls, for whose results the caller must wait with await. The calls share one packet if
// it has room for all of them.
func (c *calls) start(list ...*Call) {
	for _, k := range list {
		done := make(chan error, 1)
		k.done, k.then = done, func(err error) { done <- err }
		c.submit(k)
	}
}

// await waits until a started call has ended, and returns its error. It locks mu.
func (c *calls) await(ctx context.Context, k *Call) error {
	select {
	case err := <-k.done:
		return Plain(err)
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch k.state {
	case callEnded:
		return Plain(<-k.done)
	case callQueued:
		removeItem(&c.waiting, k)
	}
	k.then = nil
	return context.Cause(ctx)
}

// do sends a call and waits until it has ended. It locks mu.
func (c *calls) do(ctx context.Context, k *Call) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.mu.Lock()
	c.start(k)
	c.mu.Unlock()
	return c.await(ctx, k)
}

// closeHandle asks the server to close a handle, without waiting for the answer.
func (c *calls) closeHandle(h Handle) {
	if h.Session.err != nil || c.err != nil {
		return // the handle became invalid when its session ended
	}
	c.closing++
	c.submit(&Call{Session: h.Session, Take: TakeOK, then: c.handleClosed, Build: func(b []byte, id uint32) []byte {
		return wire.AppendClose(b, id, h.Handle)
	}})
}

// handleClosed is called when a CLOSE that closeHandle sent has been answered or has failed.
func (c *calls) handleClosed(error) {
	c.closing--
	c.wakeDrain()
}

// drainTimeout is the longest time that drain waits.
const drainTimeout = time.Second

// drain waits until the server has answered the CLOSEs whose results no caller waits for, but at
// most a second. If there is only one such CLOSE, drain waits only until it has been sent: see
// Drain of the client. It locks mu.
func (c *calls) drain() {
	timer := time.NewTimer(drainTimeout)
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	several := c.closing > 1
	for c.closing > 0 && c.err == nil && (several || !c.allSent()) {
		if c.drained == nil {
			c.drained = make(chan struct{})
		}
		look := c.drained
		c.mu.Unlock()
		select {
		case <-look:
			c.mu.Lock()
		case <-timer.C:
			c.mu.Lock()
			return
		}
	}
}

// allSent reports whether all requests without data have been sent.
func (c *calls) allSent() bool {
	if c.waiting.length() > 0 {
		return false
	}
	for _, s := range c.pool.sessions {
		if s != nil && s.err == nil && (len(s.text) > 0 || s.sending) {
			return false
		}
	}
	return true
}

// wakeDrain makes drain check its condition again.
func (c *calls) wakeDrain() {
	if c.drained != nil {
		close(c.drained)
		c.drained = nil
	}
}
