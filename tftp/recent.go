package tftp

import (
	"hash/maphash"
	"net/netip"
	"time"
)

const (
	// maxRecent is how many peers a shard remembers whose reads are complete.
	// Two that fall to the same place forget each other.
	maxRecent = 1024

	// recentFor is how long a duplicate of a last ACK may be on its way.
	recentFor = time.Second
)

// recent remembers the peers whose reads have just ended well. A late duplicate of their last
// ACK needs no answer. An ERROR could reach a
// peer that has asked for the next file from the same port.
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

// add notes a read that is complete.
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
