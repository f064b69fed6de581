package conns

import (
	"cmp"
	"log/slog"
	"net"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Times are the timeouts of a server, and how long it waits for clients when it ends.
type Times struct {
	Handshake time.Duration // for the PROXY header and the TLS handshake; never 0
	FirstByte time.Duration // until the client has sent a byte; 0 means no limit
	Idle      time.Duration // while a call waits and no byte is moved; 0 means no limit
	Drain     time.Duration // how long an ending server still waits for a client that has sent nothing
}

// A Group is the state that the connections of one run share.
type Group struct {
	Counts     *Counts
	Handshakes chan struct{}   // an element for each TLS handshake that is computing; its capacity is the limit
	Over       <-chan struct{} // closed when waits for a place must end; in Serve, all connections must end then
	Times      Times
	Log        *slog.Logger // nil means slog.Default

	// FirstBytes is called with the first bytes that the handler of a connection without TLS reads,
	// and with the program's handle of the connection. It may be nil.
	FirstBytes func(h net.Conn, b []byte)

	began      time.Time
	tick       time.Duration
	limits     limits
	firstPhase int32
	clock      atomic.Int64 // number of ticks since `began`, plus one
	drains     atomic.Bool  // the server is ending
}

// Counts are the counters that connections increase.
type Counts struct {
	Refused, TimedOut, AcceptErrors, BadHandshakes, Panics, Cut atomic.Uint64
}

// The phases of a connection.
const (
	opening   int32 = iota // the PROXY header or the TLS handshake is not complete
	listening              // ready, but the client has sent nothing yet
	open
)

// Begin starts the clock and sets its precision: a sixteenth of the shortest timeout, from 1 ms to
// 1 s. opens says that connections begin with a PROXY header or TLS.
func (g *Group) Begin(opens bool) {
	g.firstPhase = listening
	if opens {
		g.firstPhase = opening
	}
	shortest := g.Times.Handshake // even if connections do not begin with TLS, because StartTLS uses it
	for _, t := range []time.Duration{g.Times.FirstByte, g.Times.Idle} {
		if t > 0 {
			shortest = min(shortest, t)
		}
	}
	g.tick = min(max(shortest/16, time.Millisecond), time.Second)
	inTicks := func(t time.Duration) int64 { return int64((t + g.tick - 1) / g.tick) }
	g.limits = limits{inTicks(g.Times.Handshake), inTicks(g.Times.FirstByte), inTicks(g.Times.Idle)}
	g.began = time.Now()
	g.clock.Store(1)
}

// Tick returns the interval at which the caller must call Advance.
func (g *Group) Tick() time.Duration { return g.tick }

// Advance sets the clock, and returns the number of the current tick. The caller passes it to
// [Roster.Expire], which ends the connections that exceed a timeout.
func (g *Group) Advance() (now int64) {
	now = int64(time.Since(g.began)/g.tick) + 1
	g.clock.Store(now)
	return now
}

// Drain records that the server is ending. Connections that wait for a request then end.
func (g *Group) Drain() { g.drains.Store(true) }

// Draining reports whether the server is ending.
func (g *Group) Draining() bool { return g.drains.Load() }

// IsOver reports whether the grace period of the server is over, so that all connections must end.
func (g *Group) IsOver() bool {
	select {
	case <-g.Over:
		return true
	default:
		return false
	}
}

// ago returns how long ago a tick was.
func (g *Group) ago(tick int64) time.Duration {
	return time.Duration(max(0, g.clock.Load()-tick)) * g.tick
}

// Caught is deferred by a caller of one of the program's functions. It catches and reports a panic
// of that function. peer returns the address of the connection concerned.
func (g *Group) Caught(peer func() net.Addr) {
	if v := recover(); v != nil {
		g.Panicked(peer(), v)
	}
}

// Panicked counts and logs a panic in the program's code.
func (g *Group) Panicked(peer net.Addr, v any) {
	g.Counts.Panics.Add(1)
	cmp.Or(g.Log, slog.Default()).Error("tcp: a handler panicked", slog.String("peer", peer.String()), slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
}

// TakeHandshake takes a place for a TLS handshake. It waits for a place at most for the handshake
// timeout, and returns false if it got none.
func (g *Group) TakeHandshake() bool {
	select {
	case g.Handshakes <- struct{}{}:
		return true
	default:
	}
	t := time.NewTimer(g.Times.Handshake)
	defer t.Stop()
	select {
	case g.Handshakes <- struct{}{}:
		return true
	case <-t.C:
	case <-g.Over:
	}
	return false
}

// limits are the timeouts in ticks of the clock. 0 means that there is no limit.
type limits struct {
	handshake, firstByte, idle int64
}
