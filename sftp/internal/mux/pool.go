package mux

import (
	"time"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/sftp/internal/wire"
)

const (
	// farTrip is the shortest round trip at which TCP's window may limit a connection. With the
	// usual window of 4 MiB, one connection can move a gigabyte per second at this round trip, and
	// less at longer ones.
	farTrip = 4 * time.Millisecond

	// If at least farBytes remain to be moved on a path whose round trip is at least farTrip, all
	// allowed connections are opened at once, with farSessions sessions each. Adding one at a time,
	// to see whether it helps, would take longer than moving that much data.
	farBytes    = 64 << 20
	farSessions = 2

	// A near server may seem far because it is short of processor time. It then answers late, but
	// not always, and each further login costs it more of that time. So if the server accepted the
	// connection within farTrip, or if it is reached over a stream, it counts as far only after
	// lateBytes have moved, and only if it has answered no request within farTrip.
	lateBytes = 8 << 20

	// nearWrites is the minimum window if all transfers are uploads and the server is near. With
	// the usual minimum, sshd needs 1.5 times the processor time per byte, presumably because data
	// waits there until it has left the processor's cache.
	nearWrites = 3 * wire.CommonData

	// someConns is the limit for connections on paths with a round trip shorter than longTrip. On
	// longer paths each connection carries some 40 MB/s, so all allowed connections are opened.
	someConns = 4
	longTrip  = 50 * time.Millisecond

	// loginTrips is how many round trips pass before a further connection carries its share of the
	// data: up to thirteen to log in and to open a session, and seven for TCP's slow start.
	loginTrips = 20

	// If one connection moves cipherRate bytes per second, the processor core that encrypts it is
	// probably the limit: the rate is higher than that of a 1 Gb/s link, and lower than the speed
	// of most cores. In this case further connections are opened if at least cipherBytes remain. A
	// login costs some 70 ms of a core on both sides, and sessions of a server that is short of
	// cores slow each other down.
	cipherRate  = 150 << 20
	cipherBytes = 512 << 20
)

// A pool holds the connections and sessions of a mux, and decides how many of them are worthwhile.
// It has no goroutines; the opener opens connections and sessions.
type pool struct {
	link *pipeline.Link // limits the bytes in flight; nil until the server's properties are known
	ops  *pipeline.Ops  // limits the requests without data in flight; nil until the server's properties are known

	canConnect   bool          // further connections can be opened
	seed         time.Duration // time that it took to connect, used until a round trip is measured; 0 if unknown
	maxConns     int           // limit for the number of connections
	sessionsEach int           // limit for the sessions of each connection
	streams      bool          // connections are streams, with one session each

	conns    []*connection
	sessions []*Session // indexed by number; nil if a number is free
	opening  int        // sessions that are being opened
}

// isFull reports whether no further connection can be opened.
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

// outstanding returns the number of bytes in flight.
func (p *pool) outstanding() int {
	n := 0
	for i, s := range p.sessions {
		if s != nil {
			n += p.link.Outstanding(i)
		}
	}
	return n
}

// outstandingOn returns the number of bytes in flight on one connection.
func (p *pool) outstandingOn(conn *connection) int {
	n := 0
	for i, s := range p.sessions {
		if s != nil && s.conn == conn {
			n += p.link.Outstanding(i)
		}
	}
	return n
}

// worth returns how many connections should be opened even while the first has room for more
// sessions, and how many sessions each should have at least. There are `left` bytes to be moved,
// for which `want` sessions would help. Several connections help on a long path, because the peers'
// TCP windows limit each connection, often to less data than fits into four sessions. They help on
// a fast path, because one processor core encrypts each connection.
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

// trip returns the shorter one of two measured round trips: that of requests with data, and that of
// requests without data. Before the first answer, and for a near server until lateBytes have moved,
// it returns the time that it took to connect.
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

// setFloor sets the minimum window. The argument reads is the number of transfers that are
// downloads.
func (p *pool) setFloor(reads int) {
	n := pipeline.DefaultMinBytes
	if reads == 0 && p.isNear() && p.trip() < farTrip {
		n = nearWrites
	}
	p.link.SetFloor(n)
}

// widen enlarges the window for further connections, whose rate is not known yet. Otherwise slow
// connections could use all of the window that fast ones need. Connections without a session do not
// count, because the other connections would fill their part of the window meanwhile.
func (p *pool) widen() {
	used := map[*connection]bool{}
	for _, s := range p.sessions {
		if s != nil {
			used[s.conn] = true
		}
	}
	p.link.Widen(max(len(used)-1, 0) * pipeline.DefaultSessionBytes)
}

// even returns in how many sessions of each connection a file should be open at least. In all, the
// file should be open in `want` sessions, and `left` of its bytes remain to be moved.
func (p *pool) even(want int, left int64) int {
	conns, each := p.worth(want, left)
	if conns == 1 {
		return 0
	}
	return max(each, (want+len(p.conns)-1)/len(p.conns))
}

// usable returns how many sessions are open or soon will be. On a far path, it does not count
// sessions on connections that are still being opened.
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

// place returns the connection for a further session: among the connections with room for one, the
// connection with the fewest sessions. If no connection has room, best is nil, and wait reports
// whether a connection is being opened.
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

// idlest returns the least busy session, or nil if no session is ready for requests.
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
