package link

// A ring is a queue of runs with a fixed capacity.
type ring struct {
	runs       []run
	head, tail uint64 // numbers; an index is a number modulo len(runs)
}

func newRing(length int) ring { return ring{runs: make([]run, length)} }

func (q *ring) len() int    { return int(q.tail - q.head) }
func (q *ring) empty() bool { return q.tail == q.head }

// at returns the run at index i from the head. It is valid as long as the run is in the queue.
func (q *ring) at(i int) *run { return &q.runs[(q.head+uint64(i))%uint64(len(q.runs))] }

// push returns false if the ring is full.
func (q *ring) push(r run) bool {
	if q.len() == len(q.runs) {
		return false
	}
	q.runs[q.tail%uint64(len(q.runs))] = r
	q.tail++
	return true
}

func (q *ring) pop() { q.head++ }
