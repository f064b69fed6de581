package mux

import "slices"

// A queue is a FIFO queue. Adding and removing an item takes constant time on average.
type queue[T any] struct {
	items []T
	head  int
}

// length returns how many items there are.
func (q *queue[T]) length() int { return len(q.items) - q.head }

// push adds an item at the end.
func (q *queue[T]) push(v T) {
	if len(q.items) == cap(q.items) && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

// pop removes the first item. ok is false if the queue is empty.
func (q *queue[T]) pop() (v T, ok bool) {
	if q.length() == 0 {
		return v, false
	}
	var zero T
	v, q.items[q.head] = q.items[q.head], zero
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return v, true
}

// removeItem removes an item from any position of a queue.
func removeItem[T comparable](q *queue[T], v T) {
	if i := slices.Index(q.items[q.head:], v); i >= 0 {
		q.items = slices.Delete(q.items, q.head+i, q.head+i+1)
	}
}
