package tftp

import (
	"hash/maphash"
	"net/netip"
	"time"
)

const (
	// maxRecent is how many peers with completed reads a shard remembers. If several peers have the
	// same hash, the shard remembers only the latest one.
	maxRecent = 1024

	// recentFor is how long after the end of a read a duplicate of the peer's last ACK may arrive.
	recentFor = time.Second
)

// recent remembers the peers whose reads have just completed. A late duplicate of a peer's last ACK
// must not be answered with an ERROR, because the peer may already have requested the next file
// from the same port, and would take the ERROR as the answer to that request.
type recent struct {
	seed  maphash.Seed
	peers []struct {
		peer  netip.AddrPort
		ended time.Time
	}
}

func (r *recent) place(peer netip.AddrPort) int {
	return int(maphash.Comparable(r.seed, peer) % maxRecent)
}

// add records that a read of the peer has completed.
func (r *recent) add(now time.Time, peer netip.AddrPort) {
	if r.peers == nil {
		r.seed = maphash.MakeSeed()
		r.peers = make([]struct {
			peer  netip.AddrPort
			ended time.Time
		}, maxRecent)
	}
	p := &r.peers[r.place(peer)]
	p.peer, p.ended = peer, now
}

// has reports whether a read of the peer has completed within the last recentFor.
func (r *recent) has(now time.Time, peer netip.AddrPort) bool {
	if r.peers == nil {
		return false
	}
	p := &r.peers[r.place(peer)]
	return p.peer == peer && now.Sub(p.ended) < recentFor
}
