package tftp

import (
	"hash/maphash"
	"net/netip"
	"time"
)

const (
	// maxRecent is how many peers with completed reads a shard remembers. Of peers with the same
	// hash it remembers only the latest.
	maxRecent = 1024

	// recentFor is how long a duplicate of a last ACK may still arrive.
	recentFor = time.Second
)

// recent remembers the peers whose reads have just completed. A late duplicate of their last ACK
// needs no answer, and an ERROR could reach a peer that has requested the next file from the same
// port.
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

// add records a completed read.
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

// has reports whether the peer's read was complete within recentFor.
func (r *recent) has(now time.Time, peer netip.AddrPort) bool {
	if r.peers == nil {
		return false
	}
	p := &r.peers[r.place(peer)]
	return p.peer == peer && now.Sub(p.ended) < recentFor
}
