package mux

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/haul-project/haul/internal/rate"
)

// eagerTime is how long the client waits for the answer to a handshake that sends all its requests
// at once. After that, it begins another session, whose handshake is sequential.
const eagerTime = 5 * time.Second

// loginGrace is how long a login that is under way may continue after the mux has ended. On a long
// path it may take loginTrips round trips, if that is longer. The time is short, because a user who
// has interrupted a copy may be waiting.
const loginGrace = 2 * time.Second

// openerEvents receives the events of an opener. All methods are called under mu.
type openerEvents interface {
	// greeting is called for a session that has a number and is about to start its handshake. It
	// may add requests to the handshake.
	greeting(s *Session)

	// opened is called for a session that is ready for requests.
	opened(s *Session)

	// broken is called for a session whose handshake has failed, after its requests were removed
	// from the table, so that other sessions can repeat them.
	broken(s *Session)

	// starved is called when no session is left, so that all calls and transfers have to fail.
	starved(err error)
}

// An opener opens connections and sessions, and removes them when they end.
type opener struct {
	*core
	pool   *pool
	table  *requestTable
	owner  sessionOwner
	events openerEvents
	ready  chan struct{} // closed when the first session is open, or could not be opened

	// Guarded by mu:
	server     *Server // nil until the first session is open
	sequential bool    // sessions need sequential handshakes: see type greeting
	losses     losses
}

// openFirst opens a session on the first connection. It determines what the server supports, and
// whether its sessions need sequential handshakes. It locks mu.
func (o *opener) openFirst(ctx context.Context, conn *connection) (*Session, announcement, error) {
	if conn.isStream() {
		// A stream allows only one handshake, so there is no second attempt.
		return o.open(ctx, conn, false, o.config.First)
	}
	eager, cancel := context.WithTimeoutCause(ctx, eagerTime, ErrHandshakeTime)
	defer cancel()
	s, g, err := o.open(eager, conn, false, o.config.First)
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrNoSession) {
		return s, g, err
	}
	// The server may not offer SFTP, may be slow, or may fail on requests that arrive before it has
	// answered INIT. Try again with a handshake that waits for each answer.
	if hasEnded(eager, conn.carrier) {
		return nil, announcement{}, err
	}
	o.sequential = true
	s, g, again := o.open(ctx, conn, true, "")
	if again != nil && !errors.Is(again, errNoSubsystem) && ctx.Err() == nil {
		again = err // only the first error says why the connection ended
	}
	return s, g, again
}

// hasEnded reports whether a connection has ended. It sends a Ping to find out. Opening a channel
// would not work: when a connection ends, package ssh first drops the channels that wait for an
// answer, and only then refuses new ones. A channel that is opened in between would wait for ever.
// If the answer does not arrive in time, hasEnded returns false.
func hasEnded(ctx context.Context, c Carrier) bool {
	answered := make(chan error, 1)
	go func() { answered <- c.Ping() }() // Ping returns when the server answers or the connection ends
	select {
	case err := <-answered:
		return err != nil
	case <-ctx.Done():
		return false
	}
}

// open opens a session on a connection, and performs the handshake. It locks mu.
func (o *opener) open(ctx context.Context, conn *connection, sequential bool, first string) (*Session, announcement, error) {
	stream, err := conn.carrier.Open(ctx, sequential)
	if err != nil {
		return nil, announcement{}, err
	}
	s := newSession(o.core, o.owner, conn, stream)
	how := greeting{sequential: sequential, first: first, server: o.server}
	if o.config.Expect == ExpectFirst {
		how.large = o.expect
	}
	if !sequential && o.server != nil {
		o.mu.Lock()
		o.enlist(s)
		o.events.greeting(s)
		o.mu.Unlock()
	}
	g, err := s.handshake(ctx, how)
	if err != nil {
		go func() { _ = stream.Close() }()
		o.mu.Lock()
		o.strike(s, err)
		o.mu.Unlock()
		return nil, announcement{}, err
	}
	return s, g, nil
}

// enlist assigns a number to a session and adds it to the pool.
func (o *opener) enlist(s *Session) {
	if o.err != nil {
		s.err = o.err
	}
	s.n = slices.Index(o.pool.sessions, nil)
	if s.n < 0 {
		s.n = len(o.pool.sessions)
		o.pool.sessions = append(o.pool.sessions, nil)
	}
	o.pool.sessions[s.n] = s
	o.pool.widen()
	s.epoch = o.losses.epoch
}

// isEnlisted reports whether a session is in the pool.
func (o *opener) isEnlisted(s *Session) bool { return slices.Contains(o.pool.sessions, s) }

// strike removes a session whose handshake has failed, and takes back its requests: see takeBack.
func (o *opener) strike(s *Session, err error) {
	s.timer.Stop()
	if s.gone || !o.isEnlisted(s) {
		return
	}
	if s.err == nil {
		s.err = err
	}
	o.takeBack(s)
	o.events.broken(s)
}

// begin starts the goroutines of a session, so that it can be used.
func (o *opener) begin(s *Session) {
	s.conn.opening--
	s.conn.open = append(s.conn.open, s)
	s.conn.served = true
	if !o.isEnlisted(s) {
		o.enlist(s)
	}
	if s.ready = true; o.err != nil {
		s.err = o.err
	}
	s.start()
	o.events.opened(s)
}

// grow opens further sessions until `want` sessions are open, as far as the server allows. `left`
// is the number of bytes that remain to be moved.
func (o *opener) grow(want int, left int64) {
	if o.err != nil {
		return
	}
	if o.losses.tooMany(time.Now()) {
		if o.pool.open()+o.pool.opening == 0 {
			o.events.starved(fmt.Errorf("%w %d times, and hardly anything moved between: %w", ErrConnectionLost, o.losses.spent, o.last))
		}
		return
	}
	conns, each := o.pool.worth(want, left)
	if o.pool.streams {
		want = min(want, max(conns, 1)) // on streams each session costs a login
	}
	o.connect(conns)
	for _, conn := range o.pool.conns {
		for conn.carrier != nil && len(conn.open) > 0 && len(conn.open)+conn.opening < min(each, conn.limit) {
			o.startOpening(conn)
		}
	}
	for n := o.pool.usable(); n < want; n++ {
		conn, wait := o.pool.place()
		if wait {
			return // the connection that is being opened will have room for sessions, or will fail
		}
		if conn == nil && o.pool.isFull() {
			if n == 0 {
				o.fail(fmt.Errorf("%w: %w", ErrConnectionLost, o.last))
			} else if o.pool.opening == 0 {
				o.pool.link.LimitSessions(n)
			}
			return
		}
		if conn == nil {
			conn = o.pool.newConnection()
		}
		o.startOpening(conn)
	}
}

// connect begins to open connections until `conns` connections are open or being opened.
func (o *opener) connect(conns int) {
	for len(o.pool.conns) < conns {
		o.startOpening(o.pool.newConnection())
	}
}

// expect begins to open further connections if they help to move `left` bytes. It may do so before
// the first connection has a session. It locks mu.
func (o *opener) expect(left int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		conns, _ := o.pool.worth(1, left)
		o.connect(conns)
	}
}

// startOpening starts a goroutine that opens a session on conn.
func (o *opener) startOpening(conn *connection) {
	conn.opening++
	o.pool.opening++
	o.work.Go(func() { o.openOn(conn) })
}

// openOn opens a session on a connection. If the connection is not open yet, openOn opens it first.
// It locks mu.
func (o *opener) openOn(conn *connection) {
	err := o.pause(o.ctx)
	if err == nil && conn.carrier == nil {
		err = o.makeConnection(conn)
	}
	var s *Session
	if err == nil {
		s, err = o.openFurther(conn)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pool.opening--
	if err == nil {
		o.begin(s)
		return
	}
	conn.opening--
	switch {
	case errors.Is(err, ErrNoSession) && len(conn.open) > 0:
		conn.limit = len(conn.open) // do not ask the server for more sessions on this connection
	case len(conn.open) == 0 && conn.opening == 0:
		if o.drop(conn); conn.carrier == nil || conn.isStream() && !conn.served {
			o.pool.maxConns = max(1, len(o.pool.conns)) // do not try to open more connections
		}
	default:
		conn.limit = len(conn.open)
	}
	if o.pool.open()+o.pool.opening > 0 {
		return
	}
	if room, _ := o.pool.place(); room != nil || conn.served && !o.pool.isFull() {
		o.grow(1, 0)
		return
	}
	// No session is left. If Connect is set, a later call may open one.
	err = fmt.Errorf("%w, and there is no other: %w", ErrConnectionLost, noEOF(err))
	if o.config.Connect == nil {
		o.fail(err)
		return
	}
	o.events.starved(err)
}

// pause waits until a session may be opened, which is not allowed for a time after losses: see type
// losses. It locks mu.
func (o *opener) pause(ctx context.Context) error {
	o.mu.Lock()
	d := time.Until(o.losses.until)
	o.mu.Unlock()
	return rate.Sleep(ctx, d)
}

// makeConnection opens a connection and logs in. It continues when the mux ends, because OpenSSH
// 9.8 and later refuse source addresses whose connections end before they have logged in. It locks
// mu.
func (o *opener) makeConnection(conn *connection) error {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(o.ctx), o.config.Timeout, ErrHandshakeTime)
	defer cancel()
	stop := context.AfterFunc(o.ctx, func() { time.AfterFunc(max(loginGrace, loginTrips*o.config.Trip), cancel) })
	defer stop()
	made, err := o.config.Connect(ctx)
	<-o.ready // the steps below depend on the first session, even if this connection was refused
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		o.work.Go(func() { _ = made.Close() })
		return o.err
	}
	conn.carrier = made
	return nil
}

// openFurther opens a session that is not the first one. It locks mu.
func (o *opener) openFurther(conn *connection) (*Session, error) {
	ctx, cancel := context.WithTimeoutCause(o.ctx, o.config.Timeout, ErrHandshakeTime)
	defer cancel()
	o.mu.Lock()
	sequential := o.sequential
	o.mu.Unlock()
	s, _, err := o.open(ctx, conn, sequential, "")
	return s, err
}

// drop removes a connection that has no sessions.
func (o *opener) drop(conn *connection) {
	i := slices.Index(o.pool.conns, conn)
	if i < 0 {
		return // the client was closed meanwhile, and the connection removed
	}
	o.pool.conns = slices.Delete(o.pool.conns, i, i+1)
	if carrier := conn.carrier; carrier != nil && conn.owned {
		o.work.Go(func() { _ = carrier.Close() })
	}
}

// noteEnd records that a session has ended. It removes the session from its connection, and
// counts the loss.
func (o *opener) noteEnd(s *Session, now time.Time) {
	s.conn.open = slices.DeleteFunc(s.conn.open, func(other *Session) bool { return other == s })
	if s.conn.isStream() {
		s.conn.limit = 0 // a stream cannot have another session
	}
	o.losses.add(now, s.epoch)
}

// dropIdle drops a connection whose last session has ended, if another connection can be used: a
// connection that has lost all its sessions is probably broken.
func (o *opener) dropIdle(conn *connection) {
	if len(conn.open)+conn.opening == 0 && (o.config.Connect != nil || len(o.pool.conns) > 1) {
		o.drop(conn)
	}
}

// takeBack frees the number of a session, and removes its requests, so that other sessions can
// repeat them.
func (o *opener) takeBack(s *Session) {
	s.gone = true
	again := o.table.removeAll(s)
	o.pool.link.SessionLost(s.n)
	o.pool.sessions[s.n] = nil
	o.pool.widen()
	for _, a := range again {
		a.of.sessionLost(a.inner, s.err)
	}
}

// fail ends the mux and all its sessions, with err as the error.
func (o *opener) fail(err error) {
	if o.err == nil {
		o.err = err
	}
	for _, s := range o.pool.sessions {
		if s != nil {
			s.fail(o.err)
		}
	}
	o.events.starved(o.err)
}

// closeAll ends all sessions with err, and closes the connections that the mux owns. It returns the
// error that ended the mux earlier, or nil. It locks mu.
func (o *opener) closeAll(err error) (ended error) {
	o.mu.Lock()
	ended = o.err
	o.fail(err)
	conns := o.pool.conns
	o.pool.conns = nil
	o.mu.Unlock()
	o.stop(err)
	for _, conn := range conns {
		if conn.owned && conn.carrier != nil { // a connection that is still being opened closes itself
			_ = conn.carrier.Close()
		}
	}
	o.work.Wait()
	return ended
}
