package tftpclient

// A fifo is a queue. Alternating calls of push and pop allocate nothing.
type fifo[T any] struct {
	items []T
	head  int // number of elements at the start of items that were taken out
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) push(v T) {
	if len(q.items) == cap(q.items) && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

// pushFirst adds v at the front.
func (q *fifo[T]) pushFirst(v T) {
	if q.head == 0 {
		q.items = append(q.items, v)
		copy(q.items[1:], q.items)
		q.items[0] = v
		return
	}
	q.head--
	q.items[q.head] = v
}

// first returns the oldest item. The queue must not be empty.
func (q *fifo[T]) first() *T { return &q.items[q.head] }

// pop removes and returns the oldest item. The queue must not be empty.
func (q *fifo[T]) pop() T {
	var none T
	v := q.items[q.head]
	q.items[q.head] = none
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return v
}
