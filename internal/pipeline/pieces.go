package pipeline

// pieces divides the part of a file that a plan moves into a list of consecutive ranges without gaps.
// Each range is in one of three states: hole (still to be requested), asked (requested) or done
// (moved). Neighbours that are both holes, or both done, are merged into one piece. Holes are also in
// a heap, with the first hole of the file at the top. An operation takes constant time, or O(log n)
// in the number of holes.
type pieces struct {
	all         []piece
	free        int32 // first unused piece; the others are linked by next
	first, last int32
	count       int
	holes       []int32
}

type pieceState uint8

const (
	hole pieceState = iota
	asked
	done
)

type piece struct {
	off, end   int64
	prev, next int32
	place      int32    // index in the heap; used only for a hole
	asks       [2]int32 // indexes of the requests for the piece; none if there is no request
	state      pieceState
	empties    uint8 // number of empty answers to requests that begin at off
}

// reset makes [off, end) a single hole. If that range is empty, there are no pieces.
func (ps *pieces) reset(off, end int64) {
	*ps = pieces{all: ps.all[:0], holes: ps.holes[:0], free: none, first: none, last: none}
	if off < end {
		i := ps.before(none, off, end)
		ps.push(i)
	}
}

// before inserts a new piece in front of the piece `at`. before(none) inserts it at the end of the
// list.
func (ps *pieces) before(at int32, off, end int64) int32 {
	i := ps.free
	if i == none {
		ps.all = append(ps.all, piece{})
		i = int32(len(ps.all) - 1)
	} else {
		ps.free = ps.all[i].next
	}
	prev := ps.last
	if at != none {
		prev = ps.all[at].prev
	}
	ps.all[i] = piece{off: off, end: end, prev: prev, next: at, place: none, asks: [2]int32{none, none}}
	*ps.nextOf(prev), *ps.prevOf(at) = i, i
	ps.count++
	return i
}

// nextOf and prevOf return the fields that hold the neighbours of the piece i. nextOf(none) is the
// field for the first piece of the list, and prevOf(none) the field for the last.
func (ps *pieces) nextOf(i int32) *int32 {
	if i == none {
		return &ps.first
	}
	return &ps.all[i].next
}

func (ps *pieces) prevOf(i int32) *int32 {
	if i == none {
		return &ps.last
	}
	return &ps.all[i].prev
}

// drop removes a piece from the list. If the piece is a hole, the caller must have removed it from
// the heap.
func (ps *pieces) drop(i int32) {
	s := &ps.all[i]
	*ps.nextOf(s.prev), *ps.prevOf(s.next) = s.next, s.prev
	s.next, ps.free = ps.free, i
	ps.count--
}

// is reports whether i is a piece in the given state. It returns false for none.
func (ps *pieces) is(i int32, state pieceState) bool { return i != none && ps.all[i].state == state }

// take marks the first n bytes of the first hole as asked, and returns their piece. It returns none
// if there would be too many pieces.
func (ps *pieces) take(n int64) int32 {
	i := ps.holes[0]
	s := &ps.all[i]
	if s.end-s.off <= n {
		ps.pop(i)
		s.state = asked
		return i
	}
	if ps.count >= maxPieces {
		return none
	}
	off, empties := s.off, s.empties
	s.off += n // it is still before all other holes, so its position in the heap is right
	s.empties = 0
	i = ps.before(i, off, off+n)
	ps.all[i].state, ps.all[i].empties = asked, empties
	return i
}

// giveBack makes a piece with the state asked a hole again.
func (ps *pieces) giveBack(i int32) {
	s := &ps.all[i]
	s.state = hole
	if prev := s.prev; ps.is(prev, hole) {
		ps.all[prev].end = s.end
		ps.drop(i)
		i = prev
	} else {
		ps.push(i)
	}
	if next := ps.all[i].next; ps.is(next, hole) {
		ps.pop(next)
		ps.all[i].end = ps.all[next].end
		ps.drop(next)
	}
}

// finish marks a piece as done. If the piece is a hole, the caller must have removed it from the
// heap.
func (ps *pieces) finish(i int32) {
	s := &ps.all[i]
	s.state = done
	if prev := s.prev; ps.is(prev, done) {
		ps.all[prev].end = s.end
		ps.drop(i)
		i = prev
	}
	if next := ps.all[i].next; ps.is(next, done) {
		ps.all[i].end = ps.all[next].end
		ps.drop(next)
	}
}

// cut marks the part of a piece before the offset `at` as done. That offset must be inside the
// piece. cut returns false if there would be too many pieces.
func (ps *pieces) cut(i int32, at int64) bool {
	s := &ps.all[i]
	off := s.off
	if ps.is(s.prev, done) {
		ps.all[s.prev].end, s.off = at, at
		return true
	}
	if ps.count >= maxPieces {
		return false
	}
	s.off = at
	ps.all[ps.before(i, off, at)].state = done
	return true
}

// The functions below implement the heap of holes, which is ordered by offset.

func (ps *pieces) push(i int32) {
	ps.holes = append(ps.holes, none)
	ps.up(len(ps.holes)-1, i)
}

// pop removes a hole from the heap, wherever in the heap it is.
func (ps *pieces) pop(i int32) {
	at := int(ps.all[i].place)
	ps.all[i].place = none
	last := len(ps.holes) - 1
	moved := ps.holes[last]
	ps.holes = ps.holes[:last]
	if moved == i {
		return
	}
	if at > 0 && ps.all[moved].off < ps.all[ps.holes[(at-1)/2]].off {
		ps.up(at, moved)
	} else {
		ps.down(at, moved)
	}
}

// up and down put a hole into the heap. They begin at the free position `at`, and move the hole up
// or down from there as far as its offset requires.
func (ps *pieces) up(at int, i int32) {
	for at > 0 {
		parent := (at - 1) / 2
		if ps.all[ps.holes[parent]].off <= ps.all[i].off {
			break
		}
		ps.set(at, ps.holes[parent])
		at = parent
	}
	ps.set(at, i)
}

func (ps *pieces) down(at int, i int32) {
	for {
		child := 2*at + 1
		if child+1 < len(ps.holes) && ps.all[ps.holes[child+1]].off < ps.all[ps.holes[child]].off {
			child++
		}
		if child >= len(ps.holes) || ps.all[i].off <= ps.all[ps.holes[child]].off {
			break
		}
		ps.set(at, ps.holes[child])
		at = child
	}
	ps.set(at, i)
}

func (ps *pieces) set(at int, i int32) {
	ps.holes[at] = i
	ps.all[i].place = int32(at)
}
