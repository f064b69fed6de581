package link

// A ring is a queue of runs with a fixed capacity.
type ring struct {
	runs       []run
	head, tail uint64 // numbers of the first run and of the next free place; modulo len(runs), they are indexes
}

func newRing(length int) ring { return ring{runs: make([]run, length)} }

func (q *ring) len() int    { return int(q.tail - q.head) }
func (q *ring) empty() bool { return q.tail == q.head }

// at returns run i, counted from the head of the queue. The pointer is valid as long as the run is
// in the queue.
func (q *ring) at(i int) *run { return &q.runs[(q.head+uint64(i))%uint64(len(q.runs))] }

// push adds a run at the tail. It returns false if the ring is full.
func (q *ring) push(r run) bool {
	if q.len() == len(q.runs) {
		return false
	}
	q.runs[q.tail%uint64(len(q.runs))] = r
	q.tail++
	return true
}

func (q *ring) pop() { q.head++ }
