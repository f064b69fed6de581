package tftp

import (
	"net/netip"
	"sync"
	"time"

	"github.com/haul-project/haul/tftp/internal/packetio"
)

// Loops are filled one after another: a transfer is assigned to the first loop that has time for
// it. The more transfers are served in the same turn, the less each packet costs. So one busy loop
// does the work of two half-idle loops with half of their CPU time, and leaves the other cores free
// (docs/decisions/009). If all loops are busy, transfers are spread evenly.
//
// A transfer with a window is different: it fills a turn by itself, and on one loop two such
// transfers would each get half of the loop's time. So it is assigned to the loop that is least
// busy (docs/decisions/023). The measured load of a loop does not yet include transfers that have
// just begun, so each transfer with a window counts as windowShare percent in addition.
const windowShare = 10

// A binding holds the sockets and shards that serve one listening address.
type binding struct {
	server *Server
	// requestSockets are the sockets for requests, which share a port; empty if the shards receive
	// requests themselves.
	requestSockets []packetio.Socket
	counts         []shardCounters // counters for each of requestSockets
	shards         []*shard
	routes         routes // the shards to which requests from requestSockets are passed

	// With SinglePort, each shard receives a copy of a broadcast request, and it is not known which
	// shard will receive the peer's next packets. So broadcastShard, which has a port of its own,
	// answers for all shards. It is the last element of shards, or nil if it is not needed.
	broadcastShard *shard
}

// routes maps each peer to the shard that has its transfer, or will have it. The peer's next
// request is passed to the same shard. A lookup is made two or three times for each transfer, but
// never for each packet. The number of sessions and waiting requests limits the size of the map.
type routes struct {
	mu sync.Mutex
	to map[netip.AddrPort]route // guarded by mu
}

// A route says which shard serves a peer. It exists while the shard has a session for the peer, or
// a request of the peer is on its way to the shard.
type route struct {
	shard    *shard
	asked    int  // number of requests on their way to the shard
	held     bool // the shard has a session for the peer
	windowed bool // the route was created for a transfer with a window
}

// route returns the shard for a request, and counts the request as on its way to that shard.
func (b *binding) route(now time.Time, q *Request) *shard {
	r, peer := &b.routes, q.Peer
	r.mu.Lock()
	defer r.mu.Unlock()
	to, ok := r.to[peer]
	if !ok {
		if to.windowed = min(q.Offer.Window, b.server.config.Limits.Window) > 1; to.windowed {
			to.shard = b.leastBusy(now)
			to.shard.windowed++
		} else {
			to.shard = b.pick(now)
			to.shard.newcomers.add(now)
		}
		to.shard.routed++
	}
	to.asked++
	if r.to == nil {
		r.to = make(map[netip.AddrPort]route)
	}
	r.to[peer] = to
	return to.shard
}

// pick returns the first shard that is not busy. If all shards are busy, pick returns the shard
// with the fewest transfers. The caller holds routes.mu.
func (b *binding) pick(now time.Time) *shard {
	least := b.shards[0]
	for _, sh := range b.shards {
		if !sh.full(now) {
			return sh
		}
		if sh.routed < least.routed {
			least = sh
		}
	}
	return least
}

// leastBusy returns the shard for a transfer with a window: the least busy one. Among equally busy
// shards it chooses the one with the fewest transfers. If several shards have equally few, it
// chooses the last of them, because lock-step transfers fill the first shards. The caller holds
// routes.mu.
func (b *binding) leastBusy(now time.Time) *shard {
	var least *shard
	var time int64
	for _, sh := range b.shards {
		t := sh.percentBusy(now) + windowShare*int64(sh.windowed)
		if least == nil || t < time || t == time && sh.routed <= least.routed {
			least, time = sh, t
		}
	}
	return least
}

// lost records that a request was dropped before it reached its shard.
func (r *routes) lost(peer netip.AddrPort) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to := r.to[peer]
	to.asked--
	r.update(peer, to)
}

// arrived records that a request reached its shard, and whether the peer has a session now.
func (r *routes) arrived(peer netip.AddrPort, held bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to := r.to[peer]
	to.asked, to.held = to.asked-1, held
	r.update(peer, to)
}

// awaits reports whether a request of the peer is on its way to the peer's shard.
func (r *routes) awaits(peer netip.AddrPort) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.to[peer].asked > 0
}

// release records that the peer no longer has a session.
func (r *routes) release(peer netip.AddrPort) {
	r.mu.Lock()
	defer r.mu.Unlock()
	to := r.to[peer]
	to.held = false
	r.update(peer, to)
}

// update changes a route, or removes it if it has no session and no request. It does nothing for a
// request without a route, such as a broadcast. The caller holds mu.
func (r *routes) update(peer netip.AddrPort, to route) {
	switch {
	case to.shard == nil:
	case to.asked > 0 || to.held:
		r.to[peer] = to
	default:
		to.shard.routed--
		if to.windowed {
			to.shard.windowed--
		}
		delete(r.to, peer)
	}
}
