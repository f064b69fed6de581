// Package sources limits the number of connections of each source, for package tcp.
package sources

import (
	"hash/maphash"
	"maps"
	"net/netip"
	"sync"
)

// A Table counts the connections of each source, so that one source cannot take all places. Its
// methods may be called concurrently.
//
// A source is an IPv4 address, or the first 64 bits of an IPv6 address. These identify the network
// of one site (RFC 4291 §2.5.4), and a host in such a network can use all of its addresses.
type Table struct {
	max    int // the largest number of connections of one source
	seed   maphash.Seed
	shards [sourceShards]sourceShard
}

// sourceShards is the number of parts of the table. Each has its own lock, so that goroutines that
// accept on several processors rarely wait for each other.
const sourceShards = 64

// A sourceShard is one part of a Table.
type sourceShard struct {
	mu    sync.Mutex
	conns map[netip.Addr]int // number of connections by source, for sources that have any. Guarded by mu
	peak  int                // the largest size of conns since that map was created. Guarded by mu

	_ [64]byte // keeps the lock of the next shard out of this shard's cache line
}

// fewestSources is the size up to which a shard's map is never replaced by a smaller one, because
// that would free little memory.
const fewestSources = 64

// New returns a table that allows each source at most max connections.
func New(max int) *Table {
	s := &Table{max: max, seed: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].conns = map[netip.Addr]int{}
	}
	return s
}

// sourceAddr returns the address that stands for the source of a: the first address of its network,
// or a itself.
func sourceAddr(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is4() || a.IsLinkLocalUnicast() {
		return a // all hosts of a link have the same first 64 bits (RFC 4291 §2.5.6)
	}
	network, _ := a.Prefix(64)
	return network.Addr()
}

// shard returns the part of the table for a source. It depends on a hash that peers cannot predict.
func (s *Table) shard(source netip.Addr) *sourceShard {
	return &s.shards[maphash.Comparable(s.seed, source)%sourceShards]
}

// Enter counts a connection from an address. If the source is at its limit, Enter does not count
// the connection and returns false. An invalid address, such as that of a peer on a unix socket,
// has no limit.
func (s *Table) Enter(a netip.Addr) bool {
	if !a.IsValid() {
		return true
	}
	source := sourceAddr(a)
	part := s.shard(source)
	part.mu.Lock()
	defer part.mu.Unlock()
	if part.conns[source] >= s.max {
		return false
	}
	part.conns[source]++
	part.peak = max(part.peak, len(part.conns))
	return true
}

// Leave undoes one Enter of the same address.
func (s *Table) Leave(a netip.Addr) {
	if !a.IsValid() {
		return
	}
	source := sourceAddr(a)
	part := s.shard(source)
	part.mu.Lock()
	defer part.mu.Unlock()
	switch n := part.conns[source]; n {
	case 0:
		panic("tcp: a source has left that never came: " + a.String())
	case 1:
		delete(part.conns, source)
		part.shrink()
	default:
		part.conns[source] = n - 1
	}
}

// shrink replaces the map if the map once held at least eight times as many sources, because the
// memory of a map never shrinks. The caller holds mu.
func (p *sourceShard) shrink() {
	if p.peak > fewestSources && 8*len(p.conns) <= p.peak {
		smaller := make(map[netip.Addr]int, len(p.conns))
		maps.Copy(smaller, p.conns)
		p.conns, p.peak = smaller, len(smaller)
	}
}
