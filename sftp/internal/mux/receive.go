package mux

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// The goroutine that reads a session calls takeData and takeReply without holding mu. They take mu
// themselves.

// find returns the request that the reply with this type and ID answers.
func (m *Mux) find(s *Session, t wire.Type, id uint32) (*request, error) {
	if s.err != nil {
		return nil, s.err
	}
	a := m.table.find(id)
	if a == nil || a.session != s || !a.sent {
		return nil, fmt.Errorf("%w: %v for id %d, under which nothing was asked", ErrProtocol, t, id)
	}
	return a, nil
}

// takeData handles a DATA packet whose header has been read. It reads the data from the channel
// directly into its destination.
func (m *Mux) takeData(s *Session) error {
	if _, err := io.ReadFull(s.in, s.head[wire.HeaderSize:]); err != nil {
		return lost("read", err)
	}
	id, n, extra, err := wire.ParseDataHeader(s.head[:])
	if err != nil {
		return Violation(err)
	}
	if s.isLate(id) {
		return s.skip(n, extra)
	}
	p, err := m.placeOf(s, id, n)
	if err != nil {
		return err
	}
	got := n
	if p.to != nil {
		got, err = io.ReadFull(s.in, p.to[:n])
	} else {
		extra += n
	}
	if err == nil && extra > 0 {
		_, err = s.in.Discard(extra)
	}
	return m.took(s, p, got, err)
}

// A destination says where to store the data of a request.
type destination struct {
	a      *request
	t      *transfer
	to     []byte  // memory for the data; nil if the data is not needed
	b      *Buffer // the buffer that holds `to`, if the sink accepts buffers
	unsure bool    // the data may belong to another file, so it is discarded
}

// placeOf checks that a request may receive n bytes, and returns the destination of these bytes.
func (m *Mux) placeOf(s *Session, id uint32, n int) (destination, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, err := m.find(s, wire.TypeData, id)
	if err != nil {
		return destination{}, err
	}
	t, ok := a.of.(*transfer)
	switch {
	case !ok || t.writes():
		return destination{}, fmt.Errorf("%w: DATA for id %d, which is not a READ", ErrProtocol, id)
	case n > a.n:
		return destination{}, fmt.Errorf("%w: %d bytes of data where %d were asked for", ErrProtocol, n, a.n)
	}
	p := destination{a: a, t: t, to: a.to, unsure: t.file.guessIn(s) != nil}
	switch {
	case t.gone, a.void, p.unsure:
		p.to = nil
	case p.to == nil:
		p.b = NewBuffer(n)
		p.to = p.b.Bytes
	default:
		a.filling = true
	}
	return p, nil
}

// took handles the data of a request after got bytes have been read. If reading failed before all
// bytes were read, err says why.
func (m *Mux) took(s *Session, p destination, got int, err error) error {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	a, b, t := p.a, p.b, p.t
	a.filling = false
	if err != nil {
		if b != nil {
			b.Free()
		}
		if t.gone {
			t.notify() // the goroutine that owns the memory waits until no session writes to it
		}
		return lost("read", err)
	}
	s.answered(false)
	inner, off := a.inner, a.off
	if a.void || p.unsure {
		m.discard(now, a, t)
		return nil
	}
	t.file.tries = 0
	m.opener.losses.moved += int64(got)
	m.table.remove(a)
	if t.gone || b == nil {
		if b != nil {
			b.Free()
		}
		t.plan.Reply(now, inner, got)
		t.changed(now)
		if t.gone {
			t.notify() // the goroutine that owns the memory waits until no session writes to it
		}
		return nil
	}
	t.sink.received(now, inner, off, b, got)
	t.changed(now)
	return nil
}

// takeReply handles a packet that is not DATA. The whole packet is in s.body.
func (m *Mux) takeReply(s *Session) error {
	var err error
	if s.parsed, err = wire.ParseReply(s.body); err != nil {
		return Violation(err)
	}
	p := &s.parsed // s.parsed is reused, to avoid an allocation for each reply
	if s.isLate(p.ID) {
		return nil
	}
	now := time.Now()
	m.mu.Lock()
	a, err := m.find(s, p.Type, p.ID)
	if err != nil {
		m.mu.Unlock()
		return err
	}
	k, ok := a.of.(*Call)
	if !ok {
		defer m.mu.Unlock()
		return m.takeStatus(now, s, a, p)
	}
	inner := a.inner
	s.answered(k.Slow)
	m.table.remove(a)
	m.ops.Reply(now, inner)
	k.state = callAnswered
	m.mu.Unlock()

	err = m.config.Refused(k.Take(p))
	m.mu.Lock()
	defer m.mu.Unlock()
	k.end(err)
	m.calls.send(now)
	if errors.Is(err, ErrProtocol) {
		return err
	}
	return nil
}

// takeStatus handles a reply to a READ or a WRITE, except DATA. It runs under mu.
func (m *Mux) takeStatus(now time.Time, s *Session, a *request, p *wire.Reply) error {
	t := a.of.(*transfer)
	if p.Type != wire.TypeStatus || !t.writes() && p.Status == wire.OK {
		return fmt.Errorf("%w: %v %v in answer to a request of data", ErrProtocol, p.Type, p.Status)
	}
	s.answered(false)
	if a.void || t.file.guessIn(s) != nil {
		m.discard(now, a, t)
		return nil
	}
	inner, off, n := a.inner, a.off, a.n
	t.file.tries = 0
	m.table.remove(a)
	switch {
	case p.Status == wire.OK:
		m.opener.losses.moved += int64(n)
		t.file.sure = max(t.file.sure, off+int64(n))
		t.plan.Reply(now, inner, n)
	case p.Status == wire.EOF && !t.writes():
		t.plan.EOF(inner)
	default:
		t.plan.Failed(now, inner, m.config.Refused(p.Err()))
	}
	t.changed(now)
	return nil
}
