package tftp

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// Bounds of one shard.
const (
	batchMessages = 64
	batchBytes    = 1 << 20

	// maxErrors is how many invalid datagrams per second each socket answers, so that forged
	// datagrams cannot make us flood others.
	maxErrors = 100
)

// A shard is one loop with its transfers. It has one socket for all of them, and distinguishes them
// by the peer's address.
type shard struct {
	server         *Server
	routes         *routes // the routes of the binding
	conn           packetio.Socket
	takesRequests  bool   // its port also receives requests
	broadcastShard *shard // answers broadcast requests; nil if there is no such shard, or in that shard itself
	// forwardsBroadcast marks the one shard that passes broadcast requests to the broadcastShard;
	// each shard receives a copy.
	forwardsBroadcast bool
	memory            memory
	count             shardCounters
	load
	pulse

	// The loop owns the fields from here to ending.
	in       []udp.Message
	out      *packetio.Batch
	sessions map[netip.AddrPort]*session
	timers   timers
	turnState
	unproven unprovenList
	recent   recent
	spare
	busy   int // sessions that are not dallying
	jobs   int // sessions that a worker holds
	shared map[store.Identity]*sharedCache
	errors packetio.RateLimit
	ending ending

	mu    sync.Mutex
	inbox inbox // guarded by mu
}

// A pulse shows a watchdog that a loop is alive.
type pulse struct {
	turns atomic.Int64 // number of turns so far
	asked atomic.Int64 // value of turns when Alive was last called
}

// A turnState is the state of a loop in one turn.
type turnState struct {
	scheduled []*session // sessions to advance at the end of the turn
	advanced  int        // how many of scheduled have been advanced
	current   *session   // the session being handled
	// drained is when the socket was last read until it was empty. A timer that expires later does
	// not count yet: the answer for which it waits may be in the socket.
	drained time.Time
	endings []*Transfer // ended transfers to report
	inTurn  inbox       // what the inbox contained at the beginning of the turn
}

// A spare holds the unused readings and writings of a shard.
type spare struct {
	readings spareReadings
	writings spareWritings
}

// An inbox holds requests, sessions and commands that other goroutines pass to a loop.
type inbox struct {
	requests []Request
	worked   []*session // sessions that workers have returned
	ending   ending
}

// An ending says whether a loop must stop, and how.
type ending uint8

const (
	serving ending = iota
	// retiring means that another process takes new requests: stop when all transfers have ended
	// and no repeat may need an answer.
	retiring
	draining   // take no new requests; stop when all transfers have ended
	halting    // abort all transfers, and stop when all files are closed
	abandoning // abort all transfers, and stop without waiting for jobs
)

func newShard(b *binding, conn packetio.Socket, front bool) *shard {
	srv, limits := b.server, conn.Limits()
	sh := &shard{
		load:          load{began: srv.began, spread: srv.tests.spread},
		server:        srv,
		routes:        &b.routes,
		conn:          conn,
		takesRequests: front,
		in:            make([]udp.Message, limits.Messages),
		sessions:      make(map[netip.AddrPort]*session),
		shared:        make(map[store.Identity]*sharedCache),
	}
	sh.count = srv.newShardCounters()
	sh.out = packetio.NewBatch(conn, batchMessages, batchBytes)
	sh.asked.Store(-1)
	size := max(limits.Datagram, transfer.HeaderSize+transfer.MaxBlockSize)
	for i := range sh.in {
		sh.in[i].Data = make([]byte, size)
	}
	return sh
}

// push passes a request to the loop. It returns false if the inbox is full.
func (sh *shard) push(q Request) bool {
	sh.mu.Lock()
	ok := len(sh.inbox.requests) < maxInbox && sh.inbox.ending == serving
	if ok {
		sh.inbox.requests = append(sh.inbox.requests, q)
		sh.queued.Store(int32(len(sh.inbox.requests)))
	}
	sh.mu.Unlock()
	if ok {
		sh.conn.Wake()
	}
	return ok
}

// HandBack returns the session to its loop.
func (s *session) HandBack() { s.shard.workDone(s) }

// workDone puts a session that a worker hands back into the inbox.
func (sh *shard) workDone(s *session) {
	sh.mu.Lock()
	late := sh.inbox.ending == abandoning
	if !late {
		sh.inbox.worked = append(sh.inbox.worked, s)
	}
	sh.mu.Unlock()
	if late {
		s.side.closeFile()
		return
	}
	sh.conn.Wake()
}

// stop makes the loop stop in the given way, or in the more urgent way that was requested before.
func (sh *shard) stop(how ending) {
	sh.mu.Lock()
	sh.inbox.ending = max(sh.inbox.ending, how)
	sh.mu.Unlock()
	sh.conn.Wake()
}

// closeAbandoned closes the files of sessions that workers returned after the loop had stopped. A
// loop whose socket fails stops while workers still do jobs.
func (sh *shard) closeAbandoned() {
	sh.mu.Lock()
	worked := sh.inbox.worked
	sh.inbox.ending = abandoning
	sh.mu.Unlock()
	for _, s := range worked {
		s.job = fileio.CloseJob
		s.Work()
	}
}
