package pipeline

// A table holds the outstanding requests by id. An id consists of the index of a slot and of a
// number that changes each time the slot is used. So an id is found without a search, and the id of
// a request that was answered long ago does not match a later request.
type table[T any] struct {
	slots []slot[T]
	free  int32 // first free slot, from which next leads to the others; none if no slot is free
	used  int   // number of slots in use
}

type slot[T any] struct {
	value      T
	generation uint32
	next       int32 // next free slot, while this slot is free
	taken      bool
}

func newTable[T any]() table[T] { return table[T]{free: none} }

func (t *table[T]) full() bool { return t.used == MaxOutstanding }

// add stores v in a free slot, and returns the slot's index and the request's id. The table must not
// be full.
func (t *table[T]) add(v T) (index int32, id uint32) {
	index = t.free
	if index == none {
		t.slots = append(t.slots, slot[T]{})
		index = int32(len(t.slots) - 1)
	} else {
		t.free = t.slots[index].next
	}
	s := &t.slots[index]
	s.value, s.taken = v, true
	s.generation = (s.generation + 1) % (1 << generationBits)
	t.used++
	return index, t.id(index)
}

func (t *table[T]) id(index int32) uint32 {
	return t.slots[index].generation<<outstandingBits | uint32(index)
}

// find returns the index of an id's slot, or none.
func (t *table[T]) find(id uint32) int32 {
	index := int32(id % MaxOutstanding)
	if int(index) >= len(t.slots) || !t.slots[index].taken || t.id(index) != id {
		return none
	}
	return index
}

func (t *table[T]) at(index int32) *T { return &t.slots[index].value }

func (t *table[T]) remove(index int32) {
	var zero T // clear the value, so that the slot keeps nothing alive
	s := &t.slots[index]
	s.value, s.taken, s.next = zero, false, t.free
	t.free = index
	t.used--
}
