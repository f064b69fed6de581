package pipeline

// A table holds what is outstanding under ids that name a slot and how often
// it has been used, so that an id is found at once, and one that was answered
// long ago is not taken for another.
type table[T any] struct {
	slots []slot[T]
	free  int32 // first free slot, the others follow; none at the end
	used  int
}

type slot[T any] struct {
	value      T
	generation uint32
	next       int32 // free slot behind this
	taken      bool
}

func newTable[T any]() table[T] { return table[T]{free: none} }

func (t *table[T]) full() bool { return t.used == MaxOutstanding }

// add takes a slot; the caller has checked that the table is not full.
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

// find returns the slot of an id, or none.
func (t *table[T]) find(id uint32) int32 {
	index := int32(id % MaxOutstanding)
	if int(index) >= len(t.slots) || !t.slots[index].taken || t.id(index) != id {
		return none
	}
	return index
}

func (t *table[T]) at(index int32) *T { return &t.slots[index].value }

func (t *table[T]) remove(index int32) {
	var zero T // keep nothing alive
	s := &t.slots[index]
	s.value, s.taken, s.next = zero, false, t.free
	t.free = index
	t.used--
}
