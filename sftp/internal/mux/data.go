package mux

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// find returns the request that a reply is for. The caller holds mux.mu.
func (m *Mux) find(l *Lane, t wire.Type, id uint32) (*request, error) {
	if l.err != nil {
		return nil, l.err
	}
	a := m.table.find(id)
	if a == nil || a.lane != l || !a.sent {
		return nil, fmt.Errorf("%w: %v for id %d, under which nothing was asked", ErrProtocol, t, id)
	}
	return a, nil
}

// takeData takes a DATA packet, whose header has been read. The data goes from the
// channel right to where it belongs.
func (m *Mux) takeData(l *Lane) error {
	if _, err := io.ReadFull(l.in, l.head[wire.HeaderSize:]); err != nil {
		return lost("read", err)
	}
	id, n, extra, err := wire.ParseDataHeader(l.head[:])
	if err != nil {
		return Violation(err)
	}
	if l.isLate(id) {
		return l.skip(n, extra)
	}
	p, err := m.placeOf(l, id, n)
	if err != nil {
		return err
	}
	got := n
	if p.to != nil {
		got, err = io.ReadFull(l.in, p.to[:n])
	} else {
		extra += n
	}
	if err == nil && extra > 0 {
		_, err = l.in.Discard(extra)
	}
	return m.took(l, p, got, err)
}

// A place is where the data of a request belongs.
type place struct {
	a      *request
	t      *Transfer
	to     []byte  // nil if the data is of no use
	b      *Buffer // what to is of, if it is for the sink
	unsure bool    // the data may be of another file, and is discarded
}

// placeOf checks that n bytes may come for a request, and says where they belong.
func (m *Mux) placeOf(l *Lane, id uint32, n int) (place, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, err := m.find(l, wire.TypeData, id)
	switch {
	case err != nil:
		return place{}, err
	case a.transfer == nil || a.transfer.writes():
		return place{}, fmt.Errorf("%w: DATA for id %d, which is not a READ", ErrProtocol, id)
	case n > a.n:
		return place{}, fmt.Errorf("%w: %d bytes of data where %d were asked for", ErrProtocol, n, a.n)
	}
	p := place{a: a, t: a.transfer, to: a.to, unsure: l.guesses(a.transfer.File)}
	switch {
	case a.transfer.gone, a.void, p.unsure:
		p.to = nil
	case p.to == nil:
		p.b = NewBuffer(n)
		p.to = p.b.Bytes
	default:
		a.filling = true
	}
	return p, nil
}

// took gives data to its transfer, after got bytes have been read. err is why that ended
// early.
func (m *Mux) took(l *Lane, p place, got int, err error) error {
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
			t.Notify() // the reader waits to have its memory back
		}
		return lost("read", err)
	}
	l.answered(false)
	inner, off := a.inner, a.off
	if a.void || p.unsure {
		m.discard(now, a)
		return nil
	}
	t.File.tries = 0
	m.losses.moved += int64(got)
	m.table.remove(a)
	if t.gone || b == nil {
		if b != nil {
			b.Free()
		}
		t.Plan.Reply(now, inner, got)
		t.changed(now)
		if t.gone {
			t.Notify() // the reader waits to have its memory back
		}
		return nil
	}
	t.Sink.Received(now, inner, off, b, got)
	t.changed(now)
	return nil
}

// skip passes over the data of a first file that nobody waits for.
func (l *Lane) skip(n, extra int) error {
	if n > prefetchData {
		return fmt.Errorf("%w: %d bytes of data where %d were asked for", ErrProtocol, n, prefetchData)
	}
	if _, err := l.in.Discard(n + extra); err != nil {
		return lost("read", err)
	}
	return nil
}

// takeReply takes any other packet, which is in body.
func (m *Mux) takeReply(l *Lane) error {
	var err error
	if l.parsed, err = wire.ParseReply(l.body); err != nil {
		return Violation(err)
	}
	p := &l.parsed // which need not be allocated for each
	if l.isLate(p.ID) {
		return nil
	}
	now := time.Now()
	m.mu.Lock()
	a, err := m.find(l, p.Type, p.ID)
	if err != nil {
		m.mu.Unlock()
		return err
	}
	if a.transfer != nil {
		defer m.mu.Unlock()
		return m.takeStatus(now, l, a, p)
	}
	k, inner := a.call, a.inner
	l.answered(k.Slow)
	m.table.remove(a)
	m.ops.Reply(now, inner)
	k.state = callAnswered
	m.mu.Unlock()

	err = m.config.Refused(k.Take(p))
	m.mu.Lock()
	defer m.mu.Unlock()
	k.end(err)
	m.sendCalls(now)
	if errors.Is(err, ErrProtocol) {
		return err
	}
	return nil
}

// takeStatus takes the answer to a READ or a WRITE that is not DATA. The caller
// holds mux.mu.
func (m *Mux) takeStatus(now time.Time, l *Lane, a *request, p *wire.Reply) error {
	t := a.transfer
	if p.Type != wire.TypeStatus || !t.writes() && p.Status == wire.OK {
		return fmt.Errorf("%w: %v %v in answer to a request of data", ErrProtocol, p.Type, p.Status)
	}
	l.answered(false)
	if a.void || l.guesses(t.File) {
		m.discard(now, a)
		return nil
	}
	inner, off, n := a.inner, a.off, a.n
	t.File.tries = 0
	m.table.remove(a)
	switch {
	case p.Status == wire.OK:
		m.losses.moved += int64(n)
		t.File.sure = max(t.File.sure, off+int64(n))
		t.Plan.Reply(now, inner, n)
	case p.Status == wire.EOF && !t.writes():
		t.Plan.EOF(inner)
	default:
		t.Plan.Failed(now, inner, m.config.Refused(p.Err()))
	}
	t.changed(now)
	return nil
}
