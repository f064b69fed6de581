package tcp

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"net/netip"
	"sync"
)

// sources counts the connections of each source, so that one cannot take all places. Any
// goroutine may call its methods.
//
// A source is an IPv4 address, or the 64 bits of an IPv6 address that one site shares
// (RFC 4291 §2.5.4): a host with one address of such a network can use all of them.
type sources struct {
	max    int // connections of one source
	seed   maphash.Seed
	shards [sourceShards]sourceShard
}

// sourceShards is how many parts the table has, each with its own lock. They
// are for the goroutines that accept at the same time: one for each processor.
const sourceShards = 64

// A sourceShard is a part of the table.
type sourceShard struct {
	mu    sync.Mutex
	conns map[sourceKey]int // mu: of sources that have any
	peak  int               // mu: the most sources since conns was made

	_ [64]byte // keeps the next one's lock off this one's cache line
}

// fewestSources is the size up to which a shard's map is kept as it is.
const fewestSources = 64

// A sourceKey is a source in few bytes. Unlike [netip.Addr] it has no pointers, so the
// garbage collector skips the table.
type sourceKey struct {
	bits uint64
	kind uint8
}

const (
	sourceIPv4 uint8 = iota
	sourceIPv6
	sourceLink
)

func newSources(max int) *sources {
	s := &sources{max: max, seed: maphash.MakeSeed()}
	for i := range s.shards {
		s.shards[i].conns = map[sourceKey]int{}
	}
	return s
}

// keyOf returns the source that an address belongs to.
func keyOf(a netip.Addr) sourceKey {
	if a = a.Unmap(); a.Is4() {
		b := a.As4()
		return sourceKey{uint64(binary.BigEndian.Uint32(b[:])), sourceIPv4}
	}
	b := a.As16()
	if a.IsLinkLocalUnicast() {
		// All hosts of a link share the first 64 bits, and differ in the others (RFC 4291
		// §2.5.6).
		return sourceKey{binary.BigEndian.Uint64(b[8:]), sourceLink}
	}
	return sourceKey{binary.BigEndian.Uint64(b[:8]), sourceIPv6}
}

// shard returns a source's part of the table, by a hash that peers cannot predict.
func (s *sources) shard(k sourceKey) *sourceShard {
	return &s.shards[maphash.Comparable(s.seed, k)%sourceShards]
}

// enter counts a connection. If its source is at the limit, it does not, and reports false.
// An address that is not valid, such as that of a peer on a unix socket, has no limit.
func (s *sources) enter(a netip.Addr) bool {
	if !a.IsValid() {
		return true
	}
	k := keyOf(a)
	part := s.shard(k)
	part.mu.Lock()
	defer part.mu.Unlock()
	if part.conns[k] >= s.max {
		return false
	}
	part.conns[k]++
	part.peak = max(part.peak, len(part.conns))
	return true
}

// leave undoes enter for the same address.
func (s *sources) leave(a netip.Addr) {
	if !a.IsValid() {
		return
	}
	k := keyOf(a)
	part := s.shard(k)
	part.mu.Lock()
	defer part.mu.Unlock()
	switch n := part.conns[k]; n {
	case 0:
		panic("tcp: a source has left that never came: " + a.String())
	case 1:
		delete(part.conns, k)
		part.shrink()
	default:
		part.conns[k] = n - 1
	}
}

// shrink replaces a map that once had many more sources, since a map keeps its memory. The
// caller holds mu.
func (p *sourceShard) shrink() {
	if p.peak > fewestSources && 8*len(p.conns) <= p.peak {
		smaller := make(map[sourceKey]int, len(p.conns))
		maps.Copy(smaller, p.conns)
		p.conns, p.peak = smaller, len(smaller)
	}
}
