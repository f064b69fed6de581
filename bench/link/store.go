package link

// A record is a packet that a way holds: the position of its bytes, and how many of its wire
// packets are not settled yet.
type record struct {
	shape
	from, size int // position and length in the arena, including the prefix
	open       int // deliveries that may still need it
}

const (
	arenaSize  = 64 << 20 // bytes for each way: 50 ms at 10 Gb/s
	maxRecords = 1 << 16  // packets for each way: 50 ms of 1.3 million a second
)

// An arena keeps a way's packets in order of arrival, in one ring of bytes. A packet causes no
// allocation.
type arena struct {
	bytes   []byte
	records []record // a ring
	oldest  uint64   // number of the first record kept; its index is the number modulo len(records)
	newest  uint64   // one past the last
	end     int      // where the next packet goes
}

func newArena(bytes []byte, records int) arena {
	return arena{bytes: bytes, records: make([]record, records)}
}

// room returns where to read the next packet to, or nil if there is no room.
func (a *arena) room() []byte {
	if a.newest-a.oldest == uint64(len(a.records)) {
		return nil
	}
	if a.newest == a.oldest {
		a.end = 0 // reusing the same bytes keeps them in the processor's cache
		return a.bytes[:maxPacket]
	}
	begin := a.at(a.oldest).from
	if a.end > begin { // begin to end is in use
		if a.end+maxPacket <= len(a.bytes) {
			return a.bytes[a.end : a.end+maxPacket]
		}
		a.end = 0
	}
	if a.end+maxPacket > begin { // all but end to begin is in use
		return nil
	}
	return a.bytes[a.end : a.end+maxPacket]
}

// keep makes a record of the first size bytes of room.
func (a *arena) keep(s shape, size int) uint64 {
	number := a.newest
	*a.at(number) = record{shape: s, from: a.end, size: size}
	a.newest++
	a.end += size
	return number
}

func (a *arena) at(number uint64) *record {
	return &a.records[number%uint64(len(a.records))]
}

func (a *arena) packet(r *record) []byte { return a.bytes[r.from : r.from+r.size] }

// release forgets the oldest packets, up to the first that is still needed.
func (a *arena) release() {
	for a.oldest < a.newest && a.at(a.oldest).open == 0 {
		a.oldest++
	}
}
