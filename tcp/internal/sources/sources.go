// Package sources counts the connections of each source, for package tcp.
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
// A source is an IPv4 address, or the 64 bits of an IPv6 address that one site shares
// (RFC 4291 §2.5.4): a host with one address of such a network can use all of them.
type Table struct {
	max    int // the largest number of connections of one source
	seed   maphash.Seed
	shards [sourceShards]sourceShard
}

// sourceShards is how many parts the table has, each with its own lock, for goroutines that accept
// concurrently on the processors.
const sourceShards = 64

// A sourceShard is a part of the table.
type sourceShard struct {
	mu    sync.Mutex
	conns map[netip.Addr]int // mu: sources that have connections
	peak  int                // mu: the largest number of sources since conns was created

	_ [64]byte // keeps the next shard's lock off this one's cache line
}

// fewestSources is the size up to which a shard's map is never replaced.
const fewestSources = 64

// New returns a table in which each source may have up to max connections.
func New(max int) *Table {
	s := &Table{max: max, seed: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].conns = map[netip.Addr]int{}
	}
	return s
}

// sourceAddr returns the address that represents the source of a connection.
func sourceAddr(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is4() || a.IsLinkLocalUnicast() {
		return a // all hosts of a link share the first 64 bits (RFC 4291 §2.5.6)
	}
	network, _ := a.Prefix(64)
	return network.Addr()
}

// shard returns a source's part of the table, by a hash that peers cannot predict.
func (s *Table) shard(source netip.Addr) *sourceShard {
	return &s.shards[maphash.Comparable(s.seed, source)%sourceShards]
}

// Enter counts a connection. If its source is at the limit, it does not count it and reports false.
// An invalid address, such as that of a peer on a unix socket, has no limit.
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

// Leave undoes Enter for the same address.
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

// shrink replaces a map that once had many more sources, because maps do not shrink. The caller
// holds mu.
func (p *sourceShard) shrink() {
	if p.peak > fewestSources && 8*len(p.conns) <= p.peak {
		smaller := make(map[netip.Addr]int, len(p.conns))
		maps.Copy(smaller, p.conns)
		p.conns, p.peak = smaller, len(smaller)
	}
}
