package conns

import (
	"cmp"
	"log/slog"
	"net"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// Times are the timeouts of a server, and how long it waits for clients at its end.
type Times struct {
	Handshake time.Duration // for the PROXY header and TLS; never 0
	FirstByte time.Duration // 0 means no limit
	Idle      time.Duration // 0 means no limit
	Drain     time.Duration // for a client that has sent nothing when the server ends
}

// A Group is the state that the connections of one run share.
type Group struct {
	Counts     *Counts
	Handshakes chan struct{}   // an element for each TLS handshake that computes
	Over       <-chan struct{} // closed when the connections must end
	Times      Times
	Log        *slog.Logger // nil means slog.Default

	// FirstBytes is called with the first bytes that the handler of a plain connection reads, and
	// with the program's handle of it. It may be nil.
	FirstBytes func(h net.Conn, b []byte)

	began      time.Time
	tick       time.Duration
	limits     limits
	firstPhase int32
	clock      atomic.Int64 // ticks since began, plus one
	drains     atomic.Bool  // the server is ending
}

// Counts are the counters that connections change.
type Counts struct {
	Refused, TimedOut, AcceptErrors, BadHandshakes, Panics, Cut atomic.Uint64
}

// The phases of a connection.
const (
	opening   int32 = iota // for the PROXY header and TLS
	listening              // the client has sent nothing yet
	open
)

// Begin starts the clock and sets its precision: a sixteenth of the shortest timeout. If opens is
// set, connections begin with a PROXY header or TLS.
func (g *Group) Begin(opens bool) {
	g.firstPhase = listening
	if opens {
		g.firstPhase = opening
	}
	shortest := g.Times.Handshake // StartTLS may need it at any time
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

// Tick returns the interval at which Advance must be called.
func (g *Group) Tick() time.Duration { return g.tick }

// Advance sets the clock, and returns the number of the current tick. [Roster.Expire] then ends the connections that have
// run out of time.
func (g *Group) Advance() (now int64) {
	now = int64(time.Since(g.began)/g.tick) + 1
	g.clock.Store(now)
	return now
}

// Drain begins the end: connections without a request end.
func (g *Group) Drain() { g.drains.Store(true) }

// Draining reports whether the end has begun.
func (g *Group) Draining() bool { return g.drains.Load() }

// IsOver reports whether the connections must end.
func (g *Group) IsOver() bool {
	select {
	case <-g.Over:
		return true
	default:
		return false
	}
}

// ago returns the time since a tick.
func (g *Group) ago(tick int64) time.Duration {
	return time.Duration(max(0, g.clock.Load()-tick)) * g.tick
}

// Caught is deferred around a function of the program that concerns a connection. It catches a
// panic of that function.
func (g *Group) Caught(peer func() net.Addr) {
	if v := recover(); v != nil {
		g.Panicked(peer(), v)
	}
}

// Panicked counts and logs a panic of the program's code.
func (g *Group) Panicked(peer net.Addr, v any) {
	g.Counts.Panics.Add(1)
	cmp.Or(g.Log, slog.Default()).Error("tcp: a handler panicked", slog.String("peer", peer.String()), slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
}

// TakeHandshake takes one of the places for TLS handshakes. It waits for a place at most as long as
// a handshake may take, and reports whether it got one.
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

// limits are the timeouts in ticks of the clock; 0 for none.
type limits struct {
	handshake, firstByte, idle int64
}
