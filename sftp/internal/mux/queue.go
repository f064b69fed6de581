package mux

import "slices"

// A Queue is a queue that takes and gives at constant cost.
type Queue[T any] struct {
	items []T
	head  int
}

// Len returns how many items there are.
func (q *Queue[T]) Len() int { return len(q.items) - q.head }

// Push adds an item at the end.
func (q *Queue[T]) Push(v T) {
	if len(q.items) == cap(q.items) && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

// Pop takes the first item, if there is one.
func (q *Queue[T]) Pop() (v T, ok bool) {
	if q.Len() == 0 {
		return v, false
	}
	var zero T
	v, q.items[q.head] = q.items[q.head], zero
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return v, true
}

// remove takes one out of a queue, wherever it is.
func remove[T comparable](q *Queue[T], v T) {
	if i := slices.Index(q.items[q.head:], v); i >= 0 {
		q.items = slices.Delete(q.items, q.head+i, q.head+i+1)
	}
}
