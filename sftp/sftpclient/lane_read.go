package sftpclient

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// read takes replies until one cannot be read, or makes no sense.
func (l *lane) read() error {
	for {
		h, err := l.header()
		if err != nil {
			return err
		}
		if h.Type == wire.TypeData {
			err = l.data()
		} else if err = l.rest(h); err == nil {
			err = l.other()
		}
		if err != nil {
			return err
		}
	}
}

// find returns the request that a reply is for. The caller holds mux.mu.
func (l *lane) find(t wire.Type, id uint32) (*asked, error) {
	if l.err != nil {
		return nil, l.err
	}
	a := l.mux.table.find(id)
	if a == nil || a.lane != l || !a.sent {
		return nil, fmt.Errorf("%w: %v for id %d, under which nothing was asked", ErrProtocol, t, id)
	}
	return a, nil
}

// data takes a DATA packet, whose header has been read. The data goes from the
// channel right to where it belongs.
func (l *lane) data() error {
	if _, err := io.ReadFull(l.in, l.head[wire.HeaderSize:]); err != nil {
		return lost("read", err)
	}
	id, n, extra, err := wire.ParseDataHeader(l.head[:])
	if err != nil {
		return protocol(err)
	}
	m := l.mux
	m.mu.Lock()
	a, err := l.find(wire.TypeData, id)
	if err == nil && (a.transfer == nil || a.transfer.write) {
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
	var b *buffer
	to := a.to
	switch {
	case t.gone:
		extra, to = extra+n, nil
	case to == nil:
		b = newBuffer(n)
		to = b.b
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
			b.free()
		}
		if t.gone {
			t.notify() // somebody waits to have the memory back
		}
		return lost("read", err)
	}
	l.answered(false)
	inner, off := a.inner, a.off
	t.file.tries = 0
	m.losses.moved += int64(got)
	m.table.remove(a)
	if t.gone || b == nil {
		if b != nil {
			b.free()
		}
		t.plan.Reply(now, inner, got)
		t.changed(now)
		if t.gone {
			t.notify() // somebody waits to have the memory back
		}
		return nil
	}
	t.endpoint.received(now, inner, off, b, got)
	t.changed(now)
	return nil
}

// other takes any other packet, which is in body.
func (l *lane) other() error {
	var err error
	if l.parsed, err = wire.ParseReply(l.body); err != nil {
		return protocol(err)
	}
	p := &l.parsed // which need not be allocated for each
	now := time.Now()
	m := l.mux
	m.mu.Lock()
	a, err := l.find(p.Type, p.ID)
	if err != nil {
		m.mu.Unlock()
		return err
	}
	if a.transfer != nil {
		defer m.mu.Unlock()
		return l.status(now, a, p)
	}
	k, inner := a.call, a.inner
	l.answered(k.slow)
	m.table.remove(a)
	m.ops.Reply(now, inner)
	k.state = callAnswered
	m.mu.Unlock()

	err = k.take(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	k.end(err)
	m.serveCalls(now)
	if errors.Is(err, ErrProtocol) {
		return err
	}
	return nil
}

// status takes the answer to a READ or a WRITE that is not DATA. The caller
// holds mux.mu.
func (l *lane) status(now time.Time, a *asked, p *wire.Reply) error {
	t := a.transfer
	if p.Type != wire.TypeStatus || !t.write && p.Status == wire.OK {
		return fmt.Errorf("%w: %v %v in answer to a request of data", ErrProtocol, p.Type, p.Status)
	}
	l.answered(false)
	inner, off, n := a.inner, a.off, a.n
	t.file.tries = 0
	m := l.mux
	m.table.remove(a)
	switch {
	case p.Status == wire.OK:
		m.losses.moved += int64(n)
		t.file.sure = max(t.file.sure, off+int64(n))
		t.plan.Reply(now, inner, n)
	case p.Status == wire.EOF && !t.write:
		t.plan.EOF(inner)
	default:
		t.plan.Failed(now, inner, statusError(p))
	}
	t.changed(now)
	return nil
}

// statusError is the error that a STATUS says, and nil if that is none.
func statusError(p *wire.Reply) error {
	if s := (*wire.StatusError)(nil); errors.As(p.Err(), &s) {
		return newStatusError(s)
	}
	return nil
}

// An asked is a request that is to be answered.
type asked struct {
	id    uint32 // on the wire
	lane  *lane  // nil while it is free
	inner uint32 // its name in the plan's link, or in the Ops
	sent  bool   // a WRITE that was granted may not have been

	call     *call     // one of these two
	transfer *transfer //
	off      int64     // of a transfer: where in the file
	n        int       // bytes
	to       []byte    // of a READ: where the data goes; nil for a buffer
	filling  bool      // a lane is writing to it
	next     *asked    // free one behind this
}

// An askedTable finds requests by their ids. An id is used again when the
// request was answered, or its lane has ended, and not before all others that
// share its place have been.
type askedTable struct {
	all  []*asked
	free *asked
	data int // that are of transfers
}

// tableBits is for all that a Link and an Ops can have outstanding, which is
// 4096 each.
const tableBits = 13

func (t *askedTable) add(l *lane, inner uint32) *asked {
	a := t.free
	if a == nil {
		a = &asked{id: uint32(len(t.all))}
		t.all = append(t.all, a)
	} else {
		t.free = a.next
	}
	*a = asked{id: a.id + 1<<tableBits, lane: l, inner: inner}
	return a
}

func (t *askedTable) find(id uint32) *asked {
	i := int(id % (1 << tableBits))
	if i >= len(t.all) || t.all[i].id != id || t.all[i].lane == nil {
		return nil
	}
	return t.all[i]
}

func (t *askedTable) remove(a *asked) {
	if a.transfer != nil {
		t.data--
	}
	*a = asked{id: a.id, next: t.free}
	t.free = a
}

// filling reports whether a lane writes to memory of a transfer.
func (t *askedTable) filling(of *transfer) bool {
	for _, a := range t.all {
		if a.transfer == of && a.filling {
			return true
		}
	}
	return false
}

// each calls f for all requests on a lane. f may remove the one it is called
// for.
func (t *askedTable) each(l *lane, f func(*asked)) {
	for _, a := range t.all {
		if a.lane == l {
			f(a)
		}
	}
}
