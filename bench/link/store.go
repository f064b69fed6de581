package link

// A record describes a packet that a way holds: the position of its bytes, and how many deliveries
// still need it.
type record struct {
	shape
	from, size int // position and length in the arena, including the prefix
	open       int // number of runs that have not been handed over or refused yet, and need the packet
}

const (
	arenaSize  = 64 << 20 // bytes of each way's arena: 50 ms at 10 Gb/s
	maxRecords = 1 << 16  // number of packets in each way's arena: 50 ms of 1.3 million packets a second
)

// An arena keeps a way's packets in order of arrival, in one ring of bytes. Storing a packet
// allocates no memory.
type arena struct {
	bytes   []byte
	records []record // a ring: the index of a record is its number modulo len(records)
	oldest  uint64   // number of the oldest record that is kept
	newest  uint64   // number of the next record
	end     int      // position in bytes at which the next packet will be stored
}

func newArena(bytes []byte, records int) arena {
	return arena{bytes: bytes, records: make([]record, records)}
}

// room returns the memory into which to read the next packet, or nil if there is no room.
func (a *arena) room() []byte {
	if a.newest-a.oldest == uint64(len(a.records)) {
		return nil
	}
	if a.newest == a.oldest {
		a.end = 0 // reusing the same bytes keeps them in the processor's cache
		return a.bytes[:maxPacket]
	}
	begin := a.at(a.oldest).from
	if a.end > begin { // the bytes from begin to a.end are in use
		if a.end+maxPacket <= len(a.bytes) {
			return a.bytes[a.end : a.end+maxPacket]
		}
		a.end = 0
	}
	if a.end+maxPacket > begin { // all bytes except those from a.end to begin are in use
		return nil
	}
	return a.bytes[a.end : a.end+maxPacket]
}

// keep makes a record of the packet in the first `size` bytes of room, and returns the record's
// number.
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

// release forgets the oldest packets, up to the first one that is still needed.
func (a *arena) release() {
	for a.oldest < a.newest && a.at(a.oldest).open == 0 {
		a.oldest++
	}
}
