package mux

import (
	"time"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/sftp/internal/wire"
)

const (
	// farTrip is the shortest round trip at which TCP's window may limit a connection. With the
	// common window of 4 MiB, one connection moves a gigabyte per second at this round trip, and
	// less at longer ones.
	farTrip = 4 * time.Millisecond

	// If farBytes are left on such a path, all allowed connections are opened at once, each with
	// farSessions sessions. To find out one by one whether they help would take longer than moving
	// that much data.
	farBytes    = 64 << 20
	farSessions = 2

	// A server may seem far because it is short of processor time: then it answers late, but not
	// always, and each further login costs it more of that time. So if the server accepted the
	// connection within farTrip, or if it is reached over a stream, it counts as far only after
	// lateBytes have moved, and only if it answered no request within farTrip.
	lateBytes = 8 << 20

	// nearWrites is the minimum window if all transfers are uploads and the server is near. With
	// the common minimum, sshd needs 1.5 times the processor time per byte, presumably because data
	// waits there until it has left the processor's cache.
	nearWrites = 3 * wire.CommonData

	// someConns bounds the connections on paths shorter than longTrip. On longer paths each
	// connection carries some 40 MB/s, and all allowed connections are opened.
	someConns = 4
	longTrip  = 50 * time.Millisecond

	// loginTrips is how many round trips pass before a further connection carries its share: up to
	// thirteen to log in and to open a session, and seven for TCP's slow start.
	loginTrips = 20

	// A connection that moves cipherRate bytes per second is probably limited by the core that
	// encrypts it: the rate is above a link of 1 Gb/s, and below the speed of most cores. Then
	// further connections are opened if cipherBytes are left. A login costs some 70 ms of a core on
	// both sides, and if the server is short of cores, its sessions slow each other down.
	cipherRate  = 150 << 20
	cipherBytes = 512 << 20
)

// A pool holds the connections and sessions of a mux, and decides how many are worth having. It has
// no goroutines: the opener opens them.
type pool struct {
	link *pipeline.Link // nil until the server's abilities are known
	ops  *pipeline.Ops  // nil until then as well

	canConnect   bool          // further connections can be opened
	seed         time.Duration // the round trip until one is measured; 0 if unknown
	maxConns     int           // the largest number of connections
	sessionsEach int           // the largest number of sessions per connection
	streams      bool          // connections are streams, with one session each

	conns    []*connection
	sessions []*Session // by number; nil where a number is free
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

// worth returns how many connections to open even before the channels of the first are used up, and
// the least number of sessions for each. left is how many bytes remain, and want is how many
// sessions would help. Several connections help on a long path, where the peers' TCP windows limit
// each connection, often to less data than four sessions have room for. They help on a fast path
// because one core encrypts each connection.
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

// trip returns the shortest known round trip, of requests with and without data. Before the first
// answer it returns the time that it took to connect. For a near server it returns that time until
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

// setFloor sets the minimum window. reads is how many transfers are downloads.
func (p *pool) setFloor(reads int) {
	n := pipeline.DefaultMinBytes
	if reads == 0 && p.isNear() && p.trip() < farTrip {
		n = nearWrites
	}
	p.link.SetFloor(n)
}

// widen enlarges the window for further connections, whose rate is not known yet: slow connections
// must not take the room of fast ones. Connections without a session do not count, as others would
// take their room meanwhile.
func (p *pool) widen() {
	used := map[*connection]bool{}
	for _, s := range p.sessions {
		if s != nil {
			used[s.conn] = true
		}
	}
	p.link.Widen(max(len(used)-1, 0) * pipeline.DefaultSessionBytes)
}

// even returns the least number of sessions of each connection in which a file should be open. want
// is the number of sessions for the file, and left is how many of its bytes remain.
func (p *pool) even(want int, left int64) int {
	conns, each := p.worth(want, left)
	if conns == 1 {
		return 0
	}
	return max(each, (want+len(p.conns)-1)/len(p.conns))
}

// usable returns how many sessions are open or soon will be. On a far path, it does not count
// sessions of connections that are still being opened.
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

// place returns the connection with the fewest sessions among those that have room for another. If
// no connection has room, best is nil, and wait reports whether a connection is being opened.
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

// idlest returns the least busy session, or nil.
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
