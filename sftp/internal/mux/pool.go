package mux

import (
	"time"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/sftp/internal/wire"
)

const (
	// farTrip is the shortest round trip at which TCP's window may limit a connection. With
	// the common window of 4 MiB, one connection moves a gigabyte a second at this round
	// trip, and less at longer ones.
	farTrip = 4 * time.Millisecond

	// With farBytes left on such a path, all allowed connections are made at once, each with
	// farSessions. To find out one by one that they help takes longer than to move so much.
	farBytes    = 64 << 20
	farSessions = 2

	// A server that accepted the connection within farTrip, or that a stream leads to, counts
	// as far only after lateBytes have moved, and only if it answered no request within
	// farTrip. A server that is short of processor time answers late too, but not always,
	// and each further login costs it more of that time.
	lateBytes = 8 << 20

	// nearWrites is the window's floor if all transfers are uploads and the server is near.
	// With the common floor sshd needs 1.5 times the processor time for a byte, presumably
	// because data waits there until it has left the processor's cache.
	nearWrites = 3 * wire.CommonData

	// someConns bounds the connections on paths shorter than longTrip. On longer ones each
	// connection carries some 40 MB/s, and all allowed connections are made.
	someConns = 4
	longTrip  = 50 * time.Millisecond

	// loginTrips is how many round trips pass before a further connection carries its share:
	// up to thirteen to log in and to open a session, and seven of TCP's slow start.
	loginTrips = 20

	// From cipherRate on, in bytes a second, a connection is likely to be limited by the
	// core that encrypts it: it is more than a link of 1 Gb/s carries, and less than most
	// cores encrypt. Further connections are made if cipherBytes are left. A login costs
	// some 70 ms of a core on both sides, and if the server is short of cores, its sessions
	// slow each other down.
	cipherRate  = 150 << 20
	cipherBytes = 512 << 20
)

// A pool has the connections and sessions of a mux, and decides how many are worth having.
// It has no goroutines: the opener opens what the pool finds worth it.
type pool struct {
	link *pipeline.Link // nil until it is known what the server can do
	ops  *pipeline.Ops  // the same

	canConnect   bool          // further connections can be made
	seed         time.Duration // the round trip until one is measured; 0 if it is not known
	maxConns     int           // the most connections
	sessionsEach int           // the most sessions of a connection
	streams      bool          // connections are streams, of one session each

	conns    []*connection
	sessions []*Session // by number; nil where there is none
	opening  int        // sessions
}

// isFull reports whether no further connection can be made.
func (p *pool) isFull() bool { return !p.canConnect || len(p.conns) >= p.maxConns }

// open returns how many sessions are open.
func (p *pool) open() int {
	n := 0
	for _, s := range p.sessions {
		if s != nil && s.ready {
			n++
		}
	}
	return n
}

// outstanding returns how many bytes are in flight.
func (p *pool) outstanding() int {
	n := 0
	for i, s := range p.sessions {
		if s != nil {
			n += p.link.Outstanding(i)
		}
	}
	return n
}

// outstandingOn returns how many bytes are in flight on one connection.
func (p *pool) outstandingOn(conn *connection) int {
	n := 0
	for i, s := range p.sessions {
		if s != nil && s.conn == conn {
			n += p.link.Outstanding(i)
		}
	}
	return n
}

// worth returns how many connections to make even before the channels of the first are used
// up, and how many sessions each should have at least, if left bytes remain and want sessions
// would help. Several connections help on a long path, where the peers' TCP windows limit each
// of them, often to less than four sessions have room for. They help on a fast path because
// one core encrypts each connection.
func (p *pool) worth(want int, left int64) (conns, each int) {
	trip := p.trip()
	most := p.maxConns
	if trip < longTrip {
		most = min(most, someConns)
	}
	switch {
	case !p.canConnect, p.streams && p.seed == 0 && (p.link == nil || p.link.Moved() < lateBytes):
	case trip >= farTrip && left >= farBytes:
		return most, farSessions
	case p.link == nil:
	case trip >= farTrip && left/loginTrips >= int64(p.link.Window()/2):
		return min(want, most), 1
	case p.link.Rate() >= cipherRate && left >= cipherBytes:
		return min(int(p.link.Rate()/cipherRate)+1, most), 1
	}
	return 1, 1
}

// isNear reports whether the server, or a forwarder on the way to it, accepted the connection
// within farTrip.
func (p *pool) isNear() bool { return p.seed > 0 && p.seed < farTrip }

// trip returns the shortest round trip known, of requests with data and without. Before the
// first answer it is the time that it took to connect. For a near server it is that until
// lateBytes have moved.
func (p *pool) trip() time.Duration {
	if p.link == nil {
		return p.seed
	}
	data, calls := p.link.RoundTrip(), p.ops.RoundTrip()
	if p.isNear() && p.link.Moved() < lateBytes {
		return p.seed
	}
	if p.isNear() || p.streams {
		data, calls = p.link.Shortest(), p.ops.Shortest()
	}
	switch {
	case data == 0 && calls == 0:
		return p.seed
	case data == 0 || calls == 0:
		return max(data, calls)
	}
	return min(data, calls)
}

// setFloor sets the window's floor. reads is how many transfers read.
func (p *pool) setFloor(reads int) {
	n := pipeline.DefaultMinBytes
	if reads == 0 && p.isNear() && p.trip() < farTrip {
		n = nearWrites
	}
	p.link.SetFloor(n)
}

// widen enlarges the window for further connections, whose rate is not known yet: slow ones
// must not take the room of fast ones. Connections without a session do not count, as others
// would take their room meanwhile.
func (p *pool) widen() {
	used := map[*connection]bool{}
	for _, s := range p.sessions {
		if s != nil {
			used[s.conn] = true
		}
	}
	p.link.Widen(max(len(used)-1, 0) * pipeline.DefaultLaneBytes)
}

// even returns on how many sessions of each connection a file should be open at least. It
// should be open on want sessions in all, and left bytes of it remain.
func (p *pool) even(want int, left int64) int {
	conns, each := p.worth(want, left)
	if conns == 1 {
		return 0
	}
	return max(each, (want+len(p.conns)-1)/len(p.conns))
}

// usable returns how many sessions there are or soon will be. On a far path, sessions of
// connections under way do not count.
func (p *pool) usable() int {
	n := p.open() + p.opening
	if p.link != nil && p.trip() >= farTrip && p.open() > 0 {
		for _, conn := range p.conns {
			if conn.carrier == nil {
				n -= conn.opening
			}
		}
	}
	return n
}

func (p *pool) newConnection() *connection {
	conn := &connection{owned: true, limit: p.sessionsEach}
	p.conns = append(p.conns, conn)
	return conn
}

// place returns the connection with the fewest sessions that has room for another, or nil. If
// it is nil, wait says whether a connection is about to be made.
func (p *pool) place() (best *connection, wait bool) {
	for _, conn := range p.conns {
		if conn.carrier == nil {
			wait = true
			continue
		}
		if n := len(conn.open) + conn.opening; n < conn.limit && (best == nil || n < len(best.open)+best.opening) {
			best = conn
		}
	}
	return best, wait && best == nil
}

// idlest returns the session with the least to do, or nil.
func (p *pool) idlest() *Session {
	var best *Session
	least := 0
	for i, s := range p.sessions {
		if s == nil || s.err != nil || !s.ready {
			continue
		}
		if n := p.link.Outstanding(i) + s.pending; best == nil || n < least {
			best, least = s, n
		}
	}
	return best
}
