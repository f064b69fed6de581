package mux

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/haul-project/haul/internal/rate"
)

// hastyTime is how long a server may take to answer an opening that does not
// wait for its consent, before another is begun that does.
const hastyTime = 5 * time.Second

// firstLane opens a lane on the first connection. It finds out what the server can do,
// and how its sessions have to be opened.
func (m *Mux) firstLane(ctx context.Context, conn *connection) (*Lane, announcement, error) {
	hasty, cancel := context.WithTimeoutCause(ctx, hastyTime, ErrHandshakeTime)
	defer cancel()
	l, g, err := m.newLane(hasty, conn, false, m.config.First)
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrNoSession) {
		return l, g, err
	}
	// The server does not serve files, or is slow, or fails on requests that come
	// before it has answered INIT. Try again, and wait for each answer.
	if hasEnded(hasty, conn.carrier) {
		return nil, announcement{}, err
	}
	m.careful = true
	l, g, again := m.newLane(ctx, conn, true, "")
	if again != nil && !errors.Is(again, errNoSubsystem) && ctx.Err() == nil {
		again = err // the first error says why the connection ended
	}
	return l, g, again
}

// hasEnded reports whether a connection has ended. A channel must not be opened right
// behind its end: package ssh drops those that wait for an answer first, and
// notices the end only afterwards, so that a channel opened in between waits for
// ever. A request of the connection does not. Without an answer in time, the
// connection counts as alive.
func hasEnded(ctx context.Context, c Carrier) bool {
	answered := make(chan error, 1)
	go func() { answered <- c.Ping() }() // it ends when the server answers, or the connection does
	select {
	case err := <-answered:
		return err != nil
	case <-ctx.Done():
		return false
	}
}

// newLane opens a session and exchanges INIT and VERSION.
func (m *Mux) newLane(ctx context.Context, conn *connection, careful bool, first string) (*Lane, announcement, error) {
	s, err := conn.carrier.Open(ctx, careful)
	if err != nil {
		return nil, announcement{}, err
	}
	l := newLane(m, conn, s)
	g, err := l.handshake(ctx, careful, first)
	if err != nil {
		go func() { _ = s.Close() }()
		return nil, announcement{}, err
	}
	return l, g, nil
}

// startLane gives a lane its number, and work. The caller holds mu.
func (m *Mux) startLane(l *Lane) {
	l.conn.opening--
	l.conn.open = append(l.conn.open, l)
	l.conn.served = true
	if m.err != nil {
		l.err = m.err
	}
	l.n = slices.Index(m.pool.lanes, nil)
	if l.n < 0 {
		l.n = len(m.pool.lanes)
		m.pool.lanes = append(m.pool.lanes, nil)
	}
	m.pool.lanes[l.n] = l
	l.era = m.losses.era
	m.pool.widen()
	l.start()
	now := time.Now()
	m.sendCalls(now)
	m.spreadAll()
	m.GrantRoom(now)
}

// grow opens lanes until there are so many, if that is possible. left is how
// many bytes are still to be moved over them. The caller holds mu.
func (m *Mux) grow(want int, left int64) {
	if m.err != nil {
		return
	}
	if m.losses.tooMany(time.Now()) {
		if m.pool.open()+m.pool.opening == 0 {
			m.failWaiting(m.lostTooOften())
		}
		return
	}
	conns, each := m.pool.worth(want, left)
	for len(m.pool.conns) < conns {
		m.startOpening(m.pool.newConnection())
	}
	for _, conn := range m.pool.conns {
		for conn.carrier != nil && len(conn.open) > 0 && len(conn.open)+conn.opening < min(each, conn.limit) {
			m.startOpening(conn)
		}
	}
	for n := m.pool.usable(); n < want; n++ {
		conn, wait := m.pool.place()
		if wait {
			return // until it is known what the connection under way brings
		}
		if conn == nil && m.pool.isFull() {
			if n == 0 {
				m.fail(fmt.Errorf("%w: %w", ErrConnectionLost, m.last))
			} else if m.pool.opening == 0 {
				m.link.LimitLanes(n)
			}
			return
		}
		if conn == nil {
			conn = m.pool.newConnection()
		}
		m.startOpening(conn)
	}
}

// startOpening begins to open a lane. The caller holds mu.
func (m *Mux) startOpening(conn *connection) {
	conn.opening++
	m.pool.opening++
	m.work.Go(func() { m.openLane(conn) })
}

// openLane opens a lane, on a connection that has to be made first if it has no
// carrier.
func (m *Mux) openLane(conn *connection) {
	_ = m.pause(m.ctx) // or it ends now, and what follows with it
	ctx, cancel := context.WithTimeoutCause(m.ctx, m.config.Timeout, ErrHandshakeTime)
	defer cancel()
	l, err := m.tryLane(ctx, conn)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pool.opening--
	if err == nil {
		m.startLane(l)
		return
	}
	conn.opening--
	switch {
	case errors.Is(err, ErrNoSession) && len(conn.open) > 0:
		conn.limit = len(conn.open) // and never asked for more again
	case len(conn.open) == 0 && conn.opening == 0:
		if m.drop(conn); conn.carrier == nil {
			m.pool.maxConns = max(1, len(m.pool.conns)) // no other can be made
		}
	default:
		conn.limit = len(conn.open)
	}
	if m.pool.open()+m.pool.opening > 0 {
		return
	}
	if room, _ := m.pool.place(); room != nil || conn.served && !m.pool.isFull() {
		m.grow(1, 0)
		return
	}
	// No lane is left. With Connect a later call may try again.
	err = fmt.Errorf("%w, and there is no other: %w", ErrConnectionLost, noEOF(err))
	if m.config.Connect == nil {
		m.fail(err)
		return
	}
	m.failWaiting(err)
}

func (m *Mux) tryLane(ctx context.Context, conn *connection) (*Lane, error) {
	if conn.carrier == nil {
		made, err := m.config.Connect(ctx)
		if err != nil {
			return nil, err
		}
		m.mu.Lock()
		if m.err != nil {
			m.mu.Unlock()
			_ = made.Close()
			return nil, m.err
		}
		conn.carrier = made
		m.mu.Unlock()
	}
	m.mu.Lock()
	careful := m.careful
	m.mu.Unlock()
	l, g, err := m.newLane(ctx, conn, careful, "")
	if err != nil {
		return nil, err
	}
	// The next server behind the same name may be another one.
	if g.ext != m.Server.Ext || g.limits != m.Server.limits {
		go func() { _ = l.stream.Close() }()
		return nil, fmt.Errorf("%w: a further session offers other extensions or limits than the first", ErrProtocol)
	}
	return l, nil
}

// drop forgets a connection without lanes. The caller holds mu.
func (m *Mux) drop(conn *connection) {
	i := slices.Index(m.pool.conns, conn)
	if i < 0 {
		return // the Client was closed
	}
	m.pool.conns = slices.Delete(m.pool.conns, i, i+1)
	if carrier := conn.carrier; carrier != nil && conn.owned {
		m.work.Go(func() { _ = carrier.Close() })
	}
}

// ended takes a lane away whose goroutines have ended: nothing comes from it,
// and nothing reads what was to be sent. The caller holds mu.
func (m *Mux) ended(l *Lane) {
	l.conn.open = slices.DeleteFunc(l.conn.open, func(o *Lane) bool { return o == l })
	l.gone = true
	m.last = l.err
	now := time.Now()
	m.losses.add(now, l.era)
	if errors.Is(l.err, ErrProtocol) {
		m.violated(l)
	}
	var again []*Call
	for _, a := range m.table.all {
		if a.lane != l {
			continue
		}
		k, inner := a.call, a.inner
		m.table.remove(a)
		if k != nil {
			m.ops.Lost(inner)
			again = append(again, k)
		}
	}
	m.link.LaneLost(l.n)
	m.pool.lanes[l.n] = nil
	for _, k := range again {
		m.retry(k, l.err)
	}
	if len(l.conn.open)+l.conn.opening == 0 && (m.config.Connect != nil || len(m.pool.conns) > 1) {
		m.drop(l.conn) // it is suspect, and another can be made
	}
	m.lostLane(l)
	m.sendCalls(now)
	m.GrantRoom(now)
}

// fail ends all that is under way. The caller holds mu.
func (m *Mux) fail(err error) {
	if m.err == nil {
		m.err = err
	}
	for _, l := range m.pool.lanes {
		if l != nil {
			l.fail(m.err)
		}
	}
	m.failWaiting(m.err)
	m.wakeDrain()
}

// failWaiting fails what needs a lane. The caller holds mu.
func (m *Mux) failWaiting(err error) {
	for {
		k, ok := m.calls.Pop()
		if !ok {
			break
		}
		k.end(err)
	}
	m.failTransfers(err)
}

// pause waits until another session may be opened.
func (m *Mux) pause(ctx context.Context) error {
	m.mu.Lock()
	d := time.Until(m.losses.until)
	m.mu.Unlock()
	return rate.Sleep(ctx, d)
}

// lostTooOften is the error for what there is no session for. The caller holds
// mu.
func (m *Mux) lostTooOften() error {
	return fmt.Errorf("%w %d times, and hardly anything moved between: %w", ErrConnectionLost, m.losses.spent, m.last)
}
