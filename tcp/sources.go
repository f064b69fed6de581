package tcp

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"sync"
)

// sources counts the connections that each source has now, so that one cannot
// take all that there may be. Any goroutine may call its methods.
//
// A source is an IPv4 address, or the 64 bits of an IPv6 address that one site
// shares (RFC 4291 §2.5.4). A host that has one address of such a network can use all
// of them.
type sources struct {
	max    int // connections of one source
	seed   maphash.Seed
	shards [sourceShards]sourceShard
}

// sourceShards is how many parts the table has, each with its own lock. They
// are for the goroutines that accept at the same time: one for each processor.
const sourceShards = 64

// A sourceShard is a part of the table: one array of slots, probed one after
// the other. It has twice to eight times as many as there are sources, so its
// memory is bounded by the connections there are, and given back with them; and
// while sources come and go, none is allocated.
type sourceShard struct {
	mu    sync.Mutex
	slots []sourceSlot // mu; as many as a power of two
	used  int          // mu

	_ [64]byte // keeps the next one's lock off this one's cache line
}

// A sourceSlot holds a source with its connections. If there are none it is
// free.
type sourceSlot struct {
	key   sourceKey
	conns int32
}

// fewestSlots is what a shard begins with, and keeps.
const fewestSlots = 8

// A sourceKey is a source in few bytes. It has no pointers, unlike [netip.Addr],
// so that the garbage collector need not look at the table.
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
		// All hosts of a link have the same 64 bits in front, and differ in the
		// others (RFC 4291 §2.5.6).
		return sourceKey{binary.BigEndian.Uint64(b[8:]), sourceLink}
	}
	return sourceKey{binary.BigEndian.Uint64(b[:8]), sourceIPv6}
}

// shard returns the part of the table that a source is in, and a number that
// says where to look for it there. Both come from a hash that peers cannot predict.
func (s *sources) shard(k sourceKey) (*sourceShard, uint64) {
	h := maphash.Comparable(s.seed, k)
	return &s.shards[h%sourceShards], h / sourceShards
}

// enter counts a connection, and reports false, without counting it, if its
// source has as many as it may. An address that is not valid, as of a peer on a
// Unix socket, has no limit.
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

// leave takes back what enter counted for the same address.
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
	// Only at an eighth, to half of it: who comes and goes at the edge shall not
	// move all others each time.
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

// find returns the slot that holds a source, or else the free one where it
// belongs. There always is a free one. The caller holds mu.
func (p *sourceShard) find(k sourceKey, hash uint64) int {
	mask := len(p.slots) - 1
	i := int(hash) & mask
	for p.slots[i].conns > 0 && p.slots[i].key != k {
		i = (i + 1) & mask
	}
	return i
}

// free empties slot i, and moves up what was behind it for want of its place,
// so that find may stop at the first free slot. The caller holds mu.
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
