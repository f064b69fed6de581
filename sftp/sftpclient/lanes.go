package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
)

// hastyTime is how long a server may take to answer an opening that does not
// wait for its consent, before another is begun that does.
const hastyTime = 5 * time.Second

const (
	// farTrip is the round trip from which on TCP's own window may be the
	// bound: with the 4 MiB that are common, one connection moves a gigabyte a
	// second at this one, and less at longer ones.
	farTrip = 4 * time.Millisecond

	// farBytes is how much there has to be left for all connections that may be
	// used on a long way to be made at once, with farLanes each: to find out one
	// by one that they help takes longer than to move this much.
	farBytes = 64 << 20
	farLanes = 2

	// someConns is how many connections there may be on all but the longest
	// ways. From longTrip on there may be as many as are allowed: each carries
	// some 40 MB/s there.
	someConns = 4
	longTrip  = 50 * time.Millisecond

	// loginTrips is how many round trips pass before a further connection
	// carries its share: ten to log in, three to open a file there, and seven
	// of TCP's slow start.
	loginTrips = 20

	// cipherRate is what one connection moves, bytes a second, before it is
	// likely that a core is the bound which encrypts for it: more than a link of
	// 1 Gb/s can carry, and less than most processors encrypt. cipherBytes
	// is how much has to be left for further connections to be worth their cost:
	// each login is some 70 ms of a core on both sides, and if cores are short,
	// the server's sessions are in each other's way.
	cipherRate  = 150 << 20
	cipherBytes = 512 << 20
)

// A connection has lanes.
type connection struct {
	carrier carrier
	owned   bool // to be closed with the Client

	// All of mux.mu:
	lanes   int // open
	opening int
	limit   int  // lanes the server allows, as far as known
	served  bool // it has had a lane
	pinging bool
}

// firstLane opens a lane on the first connection, and learns what the server
// can do, and how it likes its sessions to be opened.
func (m *mux) firstLane(ctx context.Context, conn *connection) (*lane, greeting, error) {
	hasty, cancel := context.WithTimeoutCause(ctx, hastyTime, errHandshakeTime)
	defer cancel()
	l, g, err := m.newLane(hasty, conn, false, m.config.First)
	if err == nil || ctx.Err() != nil || errors.Is(err, errRefused) {
		return l, g, err
	}
	// A server that does not serve files, one that takes its time, or one that
	// cannot stand a request before it has answered INIT. Ask again, and step
	// by step.
	if hasEnded(hasty, conn.carrier) {
		return nil, greeting{}, err
	}
	m.careful = true
	l, g, again := m.newLane(ctx, conn, true, "")
	if again != nil && !errors.Is(again, errNoSubsystem) && ctx.Err() == nil {
		again = err // a connection that ended says most when it does
	}
	return l, g, again
}

// hasEnded reports whether a connection has ended. A channel must not be opened right
// behind its end: package ssh drops those that wait for an answer first, and
// takes notice of the end in all that comes later only then, so that a channel
// opened in between waits for ever. A request of the connection does not. While
// it is not known, the connection is not lost.
func hasEnded(ctx context.Context, c carrier) bool {
	answered := make(chan error, 1)
	go func() { answered <- c.ping() }() // it ends when the server answers, or the connection does
	select {
	case err := <-answered:
		return err != nil
	case <-ctx.Done():
		return false
	}
}

// newLane opens a session and greets the server.
func (m *mux) newLane(ctx context.Context, conn *connection, careful bool, first string) (*lane, greeting, error) {
	s, err := conn.carrier.open(ctx, careful)
	if err != nil {
		return nil, greeting{}, err
	}
	l := newLane(m, conn, s)
	g, err := l.handshake(ctx, careful, first)
	if err != nil {
		go func() { _ = s.Close() }()
		return nil, greeting{}, err
	}
	return l, g, nil
}

// open returns how many lanes are open. The caller holds mu.
func (m *mux) open() int {
	n := 0
	for _, l := range m.lanes {
		if l != nil {
			n++
		}
	}
	return n
}

// outstanding returns how many bytes are on their way. The caller holds mu.
func (m *mux) outstanding() int {
	n := 0
	for i, l := range m.lanes {
		if l != nil {
			n += m.link.Outstanding(i)
		}
	}
	return n
}

// outstandingOn is the same for the lanes of one connection. The caller holds mu.
func (m *mux) outstandingOn(conn *connection) int {
	n := 0
	for i, l := range m.lanes {
		if l != nil && l.conn == conn {
			n += m.link.Outstanding(i)
		}
	}
	return n
}

// startLane gives a lane its number, and work. The caller holds mu.
func (m *mux) startLane(l *lane) {
	l.conn.opening--
	l.conn.lanes++
	l.conn.served = true
	if m.err != nil {
		l.err = m.err
	}
	l.n = slices.Index(m.lanes, nil)
	if l.n < 0 {
		l.n = len(m.lanes)
		m.lanes = append(m.lanes, nil)
	}
	m.lanes[l.n] = l
	l.era = m.losses.era
	m.widen()
	l.start()
	now := time.Now()
	m.serveCalls(now)
	for t := range m.transfers {
		t.file.spread(t.plan.Lanes(), m.even(t.plan.Lanes(), t.plan.Left()))
	}
	m.serve(now)
}

// grow opens lanes until there are so many, if that is possible. left is how
// many bytes are still to be moved over them. The caller holds mu.
func (m *mux) grow(want int, left int64) {
	if m.err != nil {
		return
	}
	if m.losses.tooMany(time.Now()) {
		if m.open()+m.opening == 0 {
			m.failWaiting(m.lostTooOften())
		}
		return
	}
	conns, each := m.worth(want, left)
	for len(m.conns) < conns {
		m.startOpening(m.newConnection())
	}
	for _, conn := range m.conns {
		for conn.carrier != nil && conn.lanes > 0 && conn.lanes+conn.opening < min(each, conn.limit) {
			m.startOpening(conn)
		}
	}
	for n := m.usable(); n < want; n++ {
		conn, wait := m.place()
		if wait {
			return // until it is known what the connection under way brings
		}
		if conn == nil && (m.connect == nil || len(m.conns) >= m.config.Conns) {
			if n == 0 {
				m.fail(fmt.Errorf("%w: %w", ErrConnectionLost, m.last))
			} else if m.opening == 0 {
				m.link.LimitLanes(n)
			}
			return
		}
		if conn == nil {
			conn = m.newConnection()
		}
		m.startOpening(conn)
	}
}

// worth returns how many connections are worth having before the channels of the
// first are used up, if so much is left and there is use for so many lanes, and
// how many lanes each should have at least. More connections than one are worth
// it on a long way, where what is under way on one is bounded by the peers' TCP
// as well, often at less than four lanes have room for; and on a fast one,
// because each connection is encrypted by one core. The caller holds mu.
func (m *mux) worth(want int, left int64) (conns, each int) {
	rate, trip := m.link.Rate(), m.trip()
	most := m.config.Conns
	if trip < longTrip {
		most = min(most, someConns)
	}
	switch {
	case m.connect == nil:
	case trip >= farTrip && left >= farBytes:
		return most, farLanes
	case trip >= farTrip && left/loginTrips >= int64(m.link.Window()/2):
		return min(want, most), 1
	case rate >= cipherRate && left >= cipherBytes:
		return min(int(rate/cipherRate)+1, most), 1
	}
	return 1, 1
}

// trip returns the least round trip that is known of, of those that move data
// and those that do not. The caller holds mu.
func (m *mux) trip() time.Duration {
	data, calls := m.link.RoundTrip(), m.ops.RoundTrip()
	if data == 0 || calls == 0 {
		return max(data, calls)
	}
	return min(data, calls)
}

// widen makes room in the window for connections that have yet to prove their
// rate: what they are slow with must not be missing on those that are fast. The
// caller holds mu.
func (m *mux) widen() {
	if m.link != nil {
		m.link.Widen((len(m.conns) - 1) * pipeline.DefaultLaneBytes)
	}
}

// even returns on how many lanes of each connection a file should be open at
// least, if it should be open on so many and so much of it is left. The caller
// holds mu.
func (m *mux) even(want int, left int64) int {
	conns, each := m.worth(want, left)
	if conns == 1 {
		return 0
	}
	return max(each, (want+len(m.conns)-1)/len(m.conns))
}

// usable returns how many lanes there are, or soon will be. Where connections
// are made for their own sake, their lanes do not count before they are there.
func (m *mux) usable() int {
	n := m.open() + m.opening
	if m.link != nil && m.trip() >= farTrip && m.open() > 0 {
		for _, conn := range m.conns {
			if conn.carrier == nil {
				n -= conn.opening
			}
		}
	}
	return n
}

func (m *mux) newConnection() *connection {
	conn := &connection{owned: true, limit: m.config.Lanes}
	m.conns = append(m.conns, conn)
	return conn
}

// startOpening begins to open a lane. The caller holds mu.
func (m *mux) startOpening(conn *connection) {
	conn.opening++
	m.opening++
	m.work.Go(func() { m.openLane(conn) })
}

// place returns the connection with room for a lane which has the fewest, or
// nil, and whether one is about to be made. The caller holds mu.
func (m *mux) place() (best *connection, wait bool) {
	for _, conn := range m.conns {
		if conn.carrier == nil {
			wait = true
			continue
		}
		if n := conn.lanes + conn.opening; n < conn.limit && (best == nil || n < best.lanes+best.opening) {
			best = conn
		}
	}
	return best, wait && best == nil
}

// openLane opens a lane, on a connection that has to be made first if it has no
// carrier.
func (m *mux) openLane(conn *connection) {
	_ = m.pause(m.ctx) // or it ends now, and what follows with it
	ctx, cancel := context.WithTimeoutCause(m.ctx, m.config.Timeout, errHandshakeTime)
	defer cancel()
	l, err := m.tryLane(ctx, conn)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opening--
	if err == nil {
		m.startLane(l)
		return
	}
	conn.opening--
	switch {
	case errors.Is(err, errRefused) && conn.lanes > 0:
		conn.limit = conn.lanes // and never asked for more again
	case conn.lanes == 0 && conn.opening == 0:
		if m.drop(conn); conn.carrier == nil {
			m.config.Conns = max(1, len(m.conns)) // there is no other to be had
		}
	default:
		conn.limit = conn.lanes
	}
	if m.open()+m.opening > 0 {
		return
	}
	if room, _ := m.place(); room != nil || conn.served && m.connect != nil && len(m.conns) < m.config.Conns {
		m.grow(1, 0)
		return
	}
	// Nothing is left to go on with. With Connect a later call may try again.
	err = fmt.Errorf("%w, and there is no other: %w", ErrConnectionLost, noEOF(err))
	if m.connect == nil {
		m.fail(err)
		return
	}
	m.failWaiting(err)
}

func (m *mux) tryLane(ctx context.Context, conn *connection) (*lane, error) {
	if conn.carrier == nil {
		made, err := m.connect(ctx)
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
	if g.ext != m.server.ext || g.limits != m.server.limits {
		go func() { _ = l.stream.Close() }()
		return nil, fmt.Errorf("%w: a further session offers other extensions or limits than the first", ErrProtocol)
	}
	return l, nil
}

// drop forgets a connection without lanes. The caller holds mu.
func (m *mux) drop(conn *connection) {
	i := slices.Index(m.conns, conn)
	if i < 0 {
		return // the Client was closed
	}
	m.conns = slices.Delete(m.conns, i, i+1)
	if carrier := conn.carrier; carrier != nil && conn.owned {
		m.work.Go(func() { _ = carrier.Close() })
	}
}

// removeLane takes a lane away whose goroutines have ended: nothing comes from it,
// and nothing reads what was to be sent. The caller holds mu.
func (m *mux) removeLane(l *lane) {
	l.conn.lanes--
	l.gone = true
	m.last = l.err
	now := time.Now()
	if !errors.Is(l.err, errGoodLane) {
		m.losses.add(now, l.era)
	}
	if errors.Is(l.err, ErrProtocol) {
		for t := range m.transfers {
			t.file.broken(l)
		}
	}
	var again []*call
	m.table.each(l, func(a *asked) {
		k, inner := a.call, a.inner
		m.table.remove(a)
		if k != nil {
			m.ops.Lost(inner)
			again = append(again, k)
		}
	})
	m.link.LaneLost(l.n)
	m.lanes[l.n] = nil
	for _, k := range again {
		m.retry(k, l.err)
	}
	if l.conn.lanes+l.conn.opening == 0 && !errors.Is(l.err, errGoodLane) {
		m.suspect(l.conn)
	}
	for t := range m.transfers {
		t.laneGone(l)
	}
	m.serveCalls(now)
	m.serve(now)
}

// suspect drops a connection whose last lane has failed, unless it is the only
// one and cannot be made anew. The caller holds mu.
func (m *mux) suspect(conn *connection) {
	if m.connect != nil || len(m.conns) > 1 {
		m.drop(conn)
	}
}
