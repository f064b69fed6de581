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
	m.mu.Lock()
	a, err := m.find(l, wire.TypeData, id)
	if err == nil && (a.transfer == nil || a.transfer.writes()) {
		err = fmt.Errorf("%w: DATA for id %d, which is not a READ", ErrProtocol, id)
	}
	if err == nil && n > a.n {
		err = fmt.Errorf("%w: %d bytes of data where %d were asked for", ErrProtocol, n, a.n)
	}
	if err != nil {
		m.mu.Unlock()
		return err
	}
	t := a.transfer
	unsure := l.guesses(t.File)
	var b *Buffer
	to := a.to
	switch {
	case t.gone, a.void, unsure:
		extra, to = extra+n, nil
	case to == nil:
		b = NewBuffer(n)
		to = b.Bytes
	default:
		a.filling = true
	}
	m.mu.Unlock()

	got := n
	if to != nil {
		got, err = io.ReadFull(l.in, to[:n])
	}
	if err == nil && extra > 0 {
		_, err = l.in.Discard(extra)
	}
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
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
	if a.void || unsure {
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
