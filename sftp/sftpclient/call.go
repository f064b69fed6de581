package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// maxTries is how many lanes in a row may be lost under one request before
// that fails.
const maxTries = 3

// A call is a request that carries no data of a file, and waits for one answer.
type call struct {
	build func(b []byte, id uint32) []byte // appends the request
	take  func(p *wire.Reply) error        // takes the answer; the reply is gone after it
	then  func(err error)                  // is called with how it ended, once, under mux.mu

	lane  *lane // the one it has to go to; nil for any
	slow  bool  // it may take as long as it likes
	again bool  // it can be asked twice, so another lane may have it if one is lost

	// All of mux.mu:
	at     *lane // the one it went to
	state  callState
	tries  int
	done   chan error
	orphan func() // instead of then, where nobody waits any more
}

type callState uint8

const (
	callNew callState = iota
	callQueued
	callSent
	callAnswered // and its answer is being read
	callEnded
)

// end ends a call. The caller holds mux.mu.
func (k *call) end(err error) {
	k.state = callEnded
	if k.then != nil {
		k.then(err)
	} else if err == nil && k.orphan != nil {
		k.orphan()
	}
}

// submit sends a call as soon as that is possible. The caller holds mu.
func (m *mux) submit(k *call) {
	if m.err != nil {
		k.end(m.err)
		return
	}
	k.state = callQueued
	m.calls.push(k)
	m.serveCalls(time.Now())
}

// serveCalls sends calls as long as there is room. The caller holds mu.
func (m *mux) serveCalls(now time.Time) {
	for m.calls.len() > 0 {
		k := m.calls.items[m.calls.head]
		l := k.lane
		if l == nil {
			if l = m.pool.idlest(); l == nil {
				m.grow(1, 0)
				return
			}
		} else if l.err != nil {
			m.calls.pop()
			k.end(fmt.Errorf("%w: %w", errLaneGone, l.err))
			continue
		}
		inner, ok := m.ops.Next(now)
		if !ok {
			return
		}
		m.calls.pop()
		a := m.table.add(l, inner)
		a.call, a.sent = k, true
		k.state, k.at = callSent, l
		l.text = k.build(l.text, a.id)
		l.expect(k.slow)
		l.due.Signal()
	}
}

// errLaneGone says that a call was on a lane which has ended, or had to go to
// one.
var errLaneGone = errors.New("session ended")

func isLaneGone(err error) bool { return errors.Is(err, errLaneGone) }

// retry is called for a call whose lane has ended before the answer. The caller
// holds mu.
func (m *mux) retry(k *call, err error) {
	k.tries++
	if k.again && k.lane == nil && askAgain(err, k.tries) && m.err == nil && (k.then != nil || k.orphan != nil) {
		m.submit(k)
		return
	}
	k.end(fmt.Errorf("%w: %w", errLaneGone, err))
}

// start sends calls, in one packet if there is room for all.
func (m *mux) start(calls ...*call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range calls {
		done := make(chan error, 1)
		k.done, k.then = done, func(err error) { done <- err }
		m.submit(k)
	}
}

// await waits for the end of a call that was started.
func (m *mux) await(ctx context.Context, k *call) error {
	select {
	case err := <-k.done:
		return plain(err)
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch k.state {
	case callEnded:
		return plain(<-k.done)
	case callQueued:
		remove(&m.calls, k)
	}
	k.then = nil
	return context.Cause(ctx)
}

// do sends a call and waits for its end.
func (m *mux) do(ctx context.Context, k *call) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	m.start(k)
	return m.await(ctx, k)
}

// plain is an error as callers see it: they know of no lanes.
func plain(err error) error {
	if isLaneGone(err) && !errors.Is(err, ErrConnectionLost) && !errors.Is(err, ErrClosed) {
		return fmt.Errorf("%w: %w", ErrConnectionLost, err)
	}
	return err
}

// What calls take for an answer. A STATUS that refuses is a *StatusError; any
// other type than the one expected is an ErrProtocol.

func unexpected(p *wire.Reply, want wire.Type) error {
	if p.Type == wire.TypeStatus {
		if err := statusError(p); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %v in place of %v", ErrProtocol, p.Type, want)
}

// takeOK expects success.
func takeOK(p *wire.Reply) error {
	if p.Type == wire.TypeStatus && p.Status == wire.OK {
		return nil
	}
	return unexpected(p, wire.TypeStatus)
}

// takeHandle expects a handle.
func takeHandle(h *string) func(*wire.Reply) error {
	return func(p *wire.Reply) error {
		if p.Type != wire.TypeHandle {
			return unexpected(p, wire.TypeHandle)
		}
		*h = string(p.Handle)
		return nil
	}
}

// takeAttrs expects attributes.
func takeAttrs(a *wire.Attrs) func(*wire.Reply) error {
	return func(p *wire.Reply) error {
		if p.Type != wire.TypeAttrs {
			return unexpected(p, wire.TypeAttrs)
		}
		*a = p.Attrs
		return nil
	}
}

// takeName expects one name.
func takeName(name *string) func(*wire.Reply) error {
	return func(p *wire.Reply) error {
		if p.Type != wire.TypeName {
			return unexpected(p, wire.TypeName)
		}
		e, ok := p.Names.One()
		if !ok {
			return fmt.Errorf("%w: %d names in place of one", ErrProtocol, p.Names.Len())
		}
		*name = string(e.Name)
		return nil
	}
}
