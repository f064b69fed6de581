package tcp

import (
	"encoding/binary"
	"hash/maphash"
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

// A sourceShard is a part of the table: an array of slots with linear probing. It has two to
// eight times as many slots as sources, so its memory is bounded by the open connections,
// and shrinks with them. While sources come and go, nothing is allocated.
type sourceShard struct {
	mu    sync.Mutex
	slots []sourceSlot // mu; as many as a power of two
	used  int          // mu

	_ [64]byte // keeps the next one's lock off this one's cache line
}

// A sourceSlot holds a source and its number of connections. Without any it is free.
type sourceSlot struct {
	key   sourceKey
	conns int32
}

// fewestSlots is how many slots a shard starts with, and keeps.
const fewestSlots = 8

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
	return &sources{max: max, seed: maphash.MakeSeed()}
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

// shard returns a source's part of the table, and where to start probing there. Both come
// from a hash that peers cannot predict.
func (s *sources) shard(k sourceKey) (*sourceShard, uint64) {
	h := maphash.Comparable(s.seed, k)
	return &s.shards[h%sourceShards], h / sourceShards
}

// enter counts a connection. If its source is at the limit, it does not, and reports false.
// An address that is not valid, such as that of a peer on a unix socket, has no limit.
func (s *sources) enter(a netip.Addr) bool {
	if !a.IsValid() {
		return true
	}
	k := keyOf(a)
	part, hash := s.shard(k)
	part.mu.Lock()
	defer part.mu.Unlock()
	if len(part.slots) > 0 {
		if slot := &part.slots[part.find(k, hash)]; slot.conns > 0 {
			if int(slot.conns) >= s.max {
				return false
			}
			slot.conns++
			return true
		}
	}
	if 2*(part.used+1) > len(part.slots) {
		s.resize(part, max(fewestSlots, 2*len(part.slots)))
	}
	part.slots[part.find(k, hash)] = sourceSlot{k, 1}
	part.used++
	return true
}

// leave undoes enter for the same address.
func (s *sources) leave(a netip.Addr) {
	if !a.IsValid() {
		return
	}
	k := keyOf(a)
	part, hash := s.shard(k)
	part.mu.Lock()
	defer part.mu.Unlock()
	i := -1
	if len(part.slots) > 0 {
		i = part.find(k, hash)
	}
	if i < 0 || part.slots[i].conns == 0 {
		panic("tcp: a source has left that never came: " + a.String())
	}
	if part.slots[i].conns--; part.slots[i].conns > 0 {
		return
	}
	part.used--
	s.free(part, i)
	// It shrinks at an eighth, to half its size: a source that comes and goes at the edge
	// must not move all others each time.
	if n := len(part.slots); n > fewestSlots && 8*part.used <= n {
		s.resize(part, n/2)
	}
}

// conns returns how many connections the source of an address has.
func (s *sources) conns(a netip.Addr) int {
	k := keyOf(a)
	part, hash := s.shard(k)
	part.mu.Lock()
	defer part.mu.Unlock()
	if len(part.slots) == 0 {
		return 0
	}
	return int(part.slots[part.find(k, hash)].conns)
}

// find returns the slot of a source, or the free slot where it belongs. There is always a
// free one. The caller holds mu.
func (p *sourceShard) find(k sourceKey, hash uint64) int {
	mask := len(p.slots) - 1
	i := int(hash) & mask
	for p.slots[i].conns > 0 && p.slots[i].key != k {
		i = (i + 1) & mask
	}
	return i
}

// free empties slot i, and moves up later slots that were displaced by it, so that find may
// stop at the first free slot. The caller holds mu.
func (s *sources) free(p *sourceShard, i int) {
	mask := len(p.slots) - 1
	for next := (i + 1) & mask; p.slots[next].conns > 0; next = (next + 1) & mask {
		_, hash := s.shard(p.slots[next].key)
		if place := int(hash) & mask; (next-place)&mask >= (next-i)&mask {
			p.slots[i] = p.slots[next]
			i = next
		}
	}
	p.slots[i] = sourceSlot{}
}

// resize gives a shard n slots. The caller holds mu.
func (s *sources) resize(p *sourceShard, n int) {
	old := p.slots
	p.slots = make([]sourceSlot, n)
	for _, slot := range old {
		if slot.conns > 0 {
			_, hash := s.shard(slot.key)
			p.slots[p.find(slot.key, hash)] = slot
		}
	}
}
