package mux

import (
	"errors"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/sftp/internal/wire"
)

const (
	// farTrip is the shortest round trip at which TCP's window may limit a connection:
	// with the common window of 4 MiB, one connection moves a gigabyte a second at
	// this round trip, and less at longer ones.
	farTrip = 4 * time.Millisecond

	// With farBytes left on such a path, all allowed connections are made at once,
	// each with farLanes: to find out one by one that they help takes longer than to
	// move this much.
	farBytes = 64 << 20
	farLanes = 2

	// Requests to a server that took the connection within farTrip, or that a stream leads
	// to, show that it is far only once so many bytes have come or gone, and only if none
	// of them was answered within farTrip. A server with little processor time is late as
	// well, but not each time, and each further login costs it more of that.
	lateBytes = 8 << 20

	// nearWrites is the window's floor if all transfers are uploads, and the server is near.
	// With the common floor sshd takes 1.5 times the processor time for a byte, presumably
	// because data waits there for longer than the processor's cache keeps it.
	nearWrites = 3 * wire.CommonData

	// someConns bounds the connections of all but the longest paths. From longTrip on
	// as many are made as are allowed: each carries some 40 MB/s there.
	someConns = 4
	longTrip  = 50 * time.Millisecond

	// loginTrips is how many round trips pass before a further connection
	// carries its share: up to thirteen to log in and to open a session, and seven
	// of TCP's slow start.
	loginTrips = 20

	// From cipherRate on, in bytes a second of one connection, its core is likely to be
	// the limit, since it encrypts: that is more than a link of 1 Gb/s carries, and
	// less than most processors encrypt. Further connections are made if cipherBytes
	// are left: a login costs some 70 ms of a core on both sides, and if the server is
	// short of cores, its sessions slow each other down.
	cipherRate  = 150 << 20
	cipherBytes = 512 << 20
)

// A lanePool has the connections and lanes of a mux, and decides how many are worth
// having. Its methods are called under mux.mu.
type lanePool struct {
	link *pipeline.Link // of the mux; nil until it is known what the server can do
	ops  *pipeline.Ops  // the same

	canConnect bool          // further connections can be made
	seed       time.Duration // the round trip until one is measured; 0 if it is not known
	maxConns   int           // that there may be
	lanesEach  int           // that a connection may have
	streams    bool          // connections are streams, of one lane each

	conns   []*connection
	lanes   []*Lane // by number; nil where there is none
	opening int     // lanes
}

// isFull reports whether no further connection can be made.
func (p *lanePool) isFull() bool { return !p.canConnect || len(p.conns) >= p.maxConns }

// open returns how many lanes are open.
func (p *lanePool) open() int {
	n := 0
	for _, l := range p.lanes {
		if l != nil && l.ready {
			n++
		}
	}
	return n
}

// outstanding returns how many bytes are in flight.
func (p *lanePool) outstanding() int {
	n := 0
	for i, l := range p.lanes {
		if l != nil {
			n += p.link.Outstanding(i)
		}
	}
	return n
}

// outstandingOn is the same for the lanes of one connection.
func (p *lanePool) outstandingOn(conn *connection) int {
	n := 0
	for i, l := range p.lanes {
		if l != nil && l.conn == conn {
			n += p.link.Outstanding(i)
		}
	}
	return n
}

// worth returns how many connections to make even before the channels of the first are
// used up, if left bytes remain and want lanes would help, and how many lanes each
// should have at least. Several connections help on a long path, where the peers' TCP
// windows limit one, often to less than four lanes have room for; and on a fast one,
// because each connection is encrypted by one core.
func (p *lanePool) worth(want int, left int64) (conns, each int) {
	trip := p.trip()
	most := p.maxConns
	if trip < longTrip {
		most = min(most, someConns)
	}
	switch {
	case !p.canConnect, p.streams && p.seed == 0 && (p.link == nil || p.link.Moved() < lateBytes):
	case trip >= farTrip && left >= farBytes:
		return most, farLanes
	case p.link == nil:
	case trip >= farTrip && left/loginTrips >= int64(p.link.Window()/2):
		return min(want, most), 1
	case p.link.Rate() >= cipherRate && left >= cipherBytes:
		return min(int(p.link.Rate()/cipherRate)+1, most), 1
	}
	return 1, 1
}

// isNear reports whether the server, or something near that forwards to it, took the
// connection within farTrip.
func (p *lanePool) isNear() bool { return p.seed > 0 && p.seed < farTrip }

// trip returns the shortest round trip known, of requests with data and without.
// Before the first of these, or before lateBytes, it is that of making the connection,
// which may lead to something near that forwards it.
func (p *lanePool) trip() time.Duration {
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

// setFloor sets the window's floor for so many transfers that read.
func (p *lanePool) setFloor(reads int) {
	n := pipeline.DefaultMinBytes
	if reads == 0 && p.isNear() && p.trip() < farTrip {
		n = nearWrites
	}
	p.link.SetFloor(n)
}

// widen enlarges the window for connections whose rate is not known yet: slow ones must
// not take the room of fast ones. Those without a lane do not count, or the first would
// take theirs before they are there.
func (p *lanePool) widen() {
	used := map[*connection]bool{}
	for _, l := range p.lanes {
		if l != nil {
			used[l.conn] = true
		}
	}
	p.link.Widen(max(len(used)-1, 0) * pipeline.DefaultLaneBytes)
}

// even returns on how many lanes of each connection a file should be open at
// least, if it should be open on so many and so much of it is left.
func (p *lanePool) even(want int, left int64) int {
	conns, each := p.worth(want, left)
	if conns == 1 {
		return 0
	}
	return max(each, (want+len(p.conns)-1)/len(p.conns))
}

// usable returns how many lanes there are, or soon will be. Where connections
// are made for their own sake, their lanes do not count before they are there.
func (p *lanePool) usable() int {
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

func (p *lanePool) newConnection() *connection {
	conn := &connection{owned: true, limit: p.lanesEach}
	p.conns = append(p.conns, conn)
	return conn
}

// place returns the connection with room for a lane which has the fewest, or
// nil, and whether one is about to be made.
func (p *lanePool) place() (best *connection, wait bool) {
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

// idlest returns the lane with the least to do, or nil.
func (p *lanePool) idlest() *Lane {
	var best *Lane
	least := 0
	for i, l := range p.lanes {
		if l == nil || l.err != nil || !l.ready {
			continue
		}
		if n := p.link.Outstanding(i) + l.pending; best == nil || n < least {
			best, least = l, n
		}
	}
	return best
}

// A connection has lanes.
type connection struct {
	carrier Carrier
	owned   bool // to be closed with the Client

	// All of mux.mu:
	open    []*Lane
	opening int
	limit   int  // lanes the server allows, as far as known
	served  bool // it has had a lane
	pinging bool
}

// isStream reports whether a connection is one session, and no more.
func (c *connection) isStream() bool {
	_, is := c.carrier.(*stream)
	return is
}

// ping asks whether a connection is alive, and closes it if there is no answer in
// the time after which a server has stalled. The caller holds mu, the lock of the mux.
func (c *connection) ping(mu *sync.Mutex) {
	if c.pinging {
		c.abandon()
		return
	}
	c.pinging = true
	go func() { // it ends with the connection
		err := c.carrier.Ping()
		mu.Lock()
		defer mu.Unlock()
		c.pinging = false
		if err != nil && !errors.Is(err, errors.ErrUnsupported) {
			c.abandon()
		}
	}()
}

// abandon closes a connection under all of its lanes. The caller
// holds mux.mu.
func (c *connection) abandon() {
	c.limit = 0
	go func() { _ = c.carrier.Close() }()
	for _, l := range c.open {
		l.fail(ErrStalled)
	}
}
