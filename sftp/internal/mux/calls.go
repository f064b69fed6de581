package mux

import (
	"context"
	"fmt"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// A Call is a request that carries no data of a file, and waits for one answer.
type Call struct {
	Build func(b []byte, id uint32) []byte // appends the request
	Take  func(p *wire.Reply) error        // takes the answer; the reply is gone after it
	Then  func(err error)                  // is called with how it ended, once, under mux.mu

	Lane  *Lane // the one it has to go to; nil for any
	Slow  bool  // it may take as long as it likes
	Again bool  // it can be asked twice, so another lane may have it if one is lost

	// Behind sends it behind the data that waits to be sent on its lane. Other calls
	// overtake that.
	Behind bool

	// All of mux.mu:
	At     *Lane // the one it went to
	state  callState
	tries  int
	done   chan error
	Orphan func() // instead of Then, when the caller does not wait any more
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
func (k *Call) end(err error) {
	k.state = callEnded
	if k.Then != nil {
		k.Then(err)
	} else if err == nil && k.Orphan != nil {
		k.Orphan()
	}
}

// A Handle is a handle and its lane.
type Handle struct {
	Lane   *Lane
	Handle string
}

// Submit sends a call as soon as that is possible. The caller holds mu.
func (m *Mux) Submit(k *Call) {
	if m.err != nil {
		k.end(m.err)
		return
	}
	k.state = callQueued
	m.calls.Push(k)
	m.sendCalls(time.Now())
}

// sendCalls sends calls as long as there is room. The caller holds mu.
func (m *Mux) sendCalls(now time.Time) {
	for m.calls.Len() > 0 {
		k := m.calls.items[m.calls.head]
		l := k.Lane
		if l == nil {
			if l = m.pool.idlest(); l == nil {
				m.grow(1, 0)
				return
			}
		} else if l.err != nil {
			m.calls.Pop()
			k.end(fmt.Errorf("%w: %w", ErrLaneLost, l.err))
			continue
		}
		inner, ok := m.ops.Next(now)
		if !ok {
			return
		}
		m.calls.Pop()
		a := m.table.add(l, inner)
		a.call, a.sent = k, true
		k.state, k.At = callSent, l
		if k.Behind && l.bulk.Len() > 0 {
			l.bulk.Push(outgoing{k.Build(nil, a.id), noMemory{}})
		} else {
			l.text = k.Build(l.text, a.id)
		}
		l.expect(k.Slow)
		l.due.Signal()
	}
}

// retry is called for a call whose lane has ended before the answer. The caller
// holds mu.
func (m *Mux) retry(k *Call, err error) {
	k.tries++
	if k.Again && k.Lane == nil && askAgain(err, k.tries) && m.err == nil && (k.Then != nil || k.Orphan != nil) {
		m.Submit(k)
		return
	}
	k.end(fmt.Errorf("%w: %w", ErrLaneLost, err))
}

// Start sends calls, in one packet if there is room for all.
func (m *Mux) Start(calls ...*Call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.start(calls...)
}

// start is Start for callers that hold mu.
func (m *Mux) start(calls ...*Call) {
	for _, k := range calls {
		done := make(chan error, 1)
		k.done, k.Then = done, func(err error) { done <- err }
		m.Submit(k)
	}
}

// Await waits for the end of a call that was started.
func (m *Mux) Await(ctx context.Context, k *Call) error {
	select {
	case err := <-k.done:
		return Plain(err)
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch k.state {
	case callEnded:
		return Plain(<-k.done)
	case callQueued:
		remove(&m.calls, k)
	}
	k.Then = nil
	return context.Cause(ctx)
}

// Do sends a call and waits for its end.
func (m *Mux) Do(ctx context.Context, k *Call) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	m.Start(k)
	return m.Await(ctx, k)
}

// CloseHandle closes one handle, and does not wait. The caller holds mu.
func (m *Mux) CloseHandle(h Handle) {
	if h.Lane.err != nil || m.err != nil {
		return // it went with the lane
	}
	m.closing++
	m.Submit(&Call{Lane: h.Lane, Take: TakeOK, Then: m.handleClosed, Build: func(b []byte, id uint32) []byte {
		return wire.AppendClose(b, id, h.Handle)
	}})
}

// hangUpTime is how long Drain waits.
const hangUpTime = time.Second

// Drain waits, for a second at most, until the server has answered the CLOSEs for
// which no caller waits: see Drain of the client.
func (m *Mux) Drain() {
	timer := time.NewTimer(hangUpTime)
	defer timer.Stop()
	m.mu.Lock()
	defer m.mu.Unlock()
	several := m.closing > 1
	for m.closing > 0 && m.err == nil && (several || !m.requestsSent()) {
		if m.drained == nil {
			m.drained = make(chan struct{})
		}
		look := m.drained
		m.mu.Unlock()
		select {
		case <-look:
			m.mu.Lock()
		case <-timer.C:
			m.mu.Lock()
			return
		}
	}
}

// requestsSent reports whether all requests but those of data have been sent. The caller
// holds mu.
func (m *Mux) requestsSent() bool {
	if m.calls.Len() > 0 {
		return false
	}
	for _, l := range m.pool.lanes {
		if l != nil && l.err == nil && (len(l.text) > 0 || l.sending) {
			return false
		}
	}
	return true
}

// handleClosed is called when a CLOSE of CloseHandle has ended. The caller
// holds mu.
func (m *Mux) handleClosed(error) {
	m.closing--
	m.wakeDrain()
}

// wakeDrain lets Drain check again. The caller holds mu.
func (m *Mux) wakeDrain() {
	if m.drained != nil {
		close(m.drained)
		m.drained = nil
	}
}
