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
	if conn.isStream() {
		return m.newLane(ctx, conn, false, m.config.First) // it is no second session
	}
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
	if !careful && m.Server != nil {
		m.mu.Lock()
		m.enlist(l)
		m.openAhead(l)
		m.mu.Unlock()
	}
	g, err := l.handshake(ctx, careful, first)
	if err != nil {
		go func() { _ = s.Close() }()
		m.mu.Lock()
		m.strike(l, err)
		m.mu.Unlock()
		return nil, announcement{}, err
	}
	return l, g, nil
}

// enlist gives a lane its number. The caller holds mu.
func (m *Mux) enlist(l *Lane) {
	if m.err != nil {
		l.err = m.err
	}
	l.n = slices.Index(m.pool.lanes, nil)
	if l.n < 0 {
		l.n = len(m.pool.lanes)
		m.pool.lanes = append(m.pool.lanes, nil)
	}
	m.pool.lanes[l.n] = l
	m.pool.widen()
	l.era = m.losses.era
}

// isEnlisted reports whether a lane has a number. The caller holds mu.
func (m *Mux) isEnlisted(l *Lane) bool { return slices.Contains(m.pool.lanes, l) }

// strike takes a lane away that has failed in its handshake, and what was asked along
// with that. The caller holds mu.
func (m *Mux) strike(l *Lane, err error) {
	l.timer.Stop()
	if l.gone || !m.isEnlisted(l) {
		return
	}
	if l.err == nil {
		l.err = err
	}
	m.takeBack(l)
	m.lostLane(l)
	now := time.Now()
	m.sendCalls(now)
	m.GrantRoom(now)
}

// startLane gives a lane its goroutines, and work. The caller holds mu.
func (m *Mux) startLane(l *Lane) {
	l.conn.opening--
	l.conn.open = append(l.conn.open, l)
	l.conn.served = true
	if !m.isEnlisted(l) {
		m.enlist(l)
	}
	if l.ready = true; m.err != nil {
		l.err = m.err
	}
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
	if m.pool.streams {
		want = min(want, max(conns, 1)) // each costs a login
	}
	m.connect(conns)
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

// connect begins further connections until there are so many. The caller holds mu.
func (m *Mux) connect(conns int) {
	for len(m.pool.conns) < conns {
		m.startOpening(m.pool.newConnection())
	}
}

// expect begins further connections if so many bytes are going to be moved and these
// help, even before the first has a lane.
func (m *Mux) expect(left int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		conns, _ := m.pool.worth(1, left)
		m.connect(conns)
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
	err := m.pause(m.ctx)
	if err == nil && conn.carrier == nil {
		err = m.makeConnection(conn)
	}
	var l *Lane
	if err == nil {
		l, err = m.tryLane(conn)
	}
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
		if m.drop(conn); conn.carrier == nil || conn.isStream() && !conn.served {
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

// loginGrace is how long a login under way may still take when the mux ends, or loginTrips
// on a long path. It is short, as a user may have interrupted a copy.
const loginGrace = 2 * time.Second

// makeConnection logs in once more. It does not break that off when the mux ends: sshd
// keeps out, from OpenSSH 9.8 on, sources whose connections end before they have
// logged in.
func (m *Mux) makeConnection(conn *connection) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(m.ctx), m.config.Timeout, ErrHandshakeTime)
	defer cancel()
	stop := context.AfterFunc(m.ctx, func() { time.AfterFunc(max(loginGrace, loginTrips*m.config.Trip), cancel) })
	defer stop()
	made, err := m.config.Connect(ctx)
	<-m.ready // what follows, from a refusal too, depends on the first lane
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		m.work.Go(func() { _ = made.Close() })
		return m.err
	}
	conn.carrier = made
	return nil
}

// tryLane opens a lane on a further connection, or a further one on the first.
func (m *Mux) tryLane(conn *connection) (*Lane, error) {
	ctx, cancel := context.WithTimeoutCause(m.ctx, m.config.Timeout, ErrHandshakeTime)
	defer cancel()
	m.mu.Lock()
	careful := m.careful
	m.mu.Unlock()
	l, _, err := m.newLane(ctx, conn, careful, "")
	return l, err
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
	if l.conn.isStream() {
		l.conn.limit = 0 // it was its session
	}
	now := time.Now()
	m.losses.add(now, l.era)
	if errors.Is(l.err, ErrProtocol) {
		m.violated(l)
	}
	m.takeBack(l)
	if len(l.conn.open)+l.conn.opening == 0 && (m.config.Connect != nil || len(m.pool.conns) > 1) {
		m.drop(l.conn) // it is suspect, and another can be made
	}
	m.lostLane(l)
	m.sendCalls(now)
	m.GrantRoom(now)
}

// takeBack frees the number of a lane, and what was asked on it. The caller holds mu.
func (m *Mux) takeBack(l *Lane) {
	l.gone = true
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
	m.pool.widen()
	for _, k := range again {
		m.retry(k, l.err)
	}
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
