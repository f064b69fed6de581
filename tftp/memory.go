package tftp

import "sync/atomic"

// A pool manages the memory that [Config].Memory limits: the buffers whose size depends on the
// transfer. It does not count the few hundred bytes that each transfer always needs. Loops lease
// the memory in pieces (docs/decisions/023).
type pool struct {
	limit int64 // Config.Memory, in bytes
	// piece is how many bytes a loop leases beyond what it needs; a loop keeps at most two pieces
	// unused.
	piece    int64
	free     atomic.Int64 // bytes that no loop has leased
	promised atomic.Int64 // bytes that uploads will need once their first data arrives: see reserve
}

// A memory is the part of a pool that one loop has leased. Only the loop uses it, except held.
type memory struct {
	pool *pool
	left int64        // bytes that are leased but not in use
	held atomic.Int64 // bytes in use; other goroutines read this
}

const (
	minRing = 8 << 10 // smallest buffer of an upload, in bytes
	// fairRing is the smallest buffer of an upload while more than half of the memory is available.
	// It makes writes fewer and larger.
	fairRing = 64 << 10

	// maxWindowBytes limits the window of one transfer, in bytes. A larger window does not help on
	// any link that TFTP is used on, but it helps senders of forged requests.
	maxWindowBytes = 2 << 20

	ringShare = 8 // the window of one upload gets at most 1/ringShare of the available memory

	// 1/spareShare of the memory is kept for small windows, so that even the last of many transfers
	// gets one.
	spareShare = 8

	// For a fetch, a reading may get more memory than it needs at the moment, but at most
	// 1/fetchShare of the available memory.
	fetchShare = 64

	// A piece has at most maxPiece bytes. All loops together have at most 1/unusedShare of the
	// memory leased but not in use.
	maxPiece    = 64 << 10
	unusedShare = 16
)

// set gives the pool n bytes of memory for the given number of loops.
func (p *pool) set(n int64, loops int) {
	p.limit = n
	p.piece = min(maxPiece, n/int64(2*unusedShare*loops))
	p.free.Store(n)
	p.promised.Store(0)
}

// lease takes free bytes, at least `least` and at most `most`, and returns their number. If fewer
// than `least` bytes are free, it takes none and returns 0.
func (p *pool) lease(least, most int64) int64 {
	for {
		free := p.free.Load()
		n := min(most, free)
		if n < least {
			return 0
		}
		if p.free.CompareAndSwap(free, free-n) {
			return n
		}
	}
}

// take raises the cost of a transfer, which is the memory that it holds, to n bytes. It returns
// false if too little memory is available.
func (m *memory) take(cost *int64, n int64) bool {
	more := n - *cost
	if more <= 0 {
		return true
	}
	if lack := more - m.left; lack > 0 {
		m.left += m.pool.lease(lack, lack+m.pool.piece)
	}
	if more > m.left {
		return false
	}
	m.left -= more
	*cost = n
	m.held.Add(more)
	return true
}

// release gives back all memory of a transfer, and sets its cost to 0.
func (m *memory) release(cost *int64) { m.lower(cost, 0) }

// lower reduces the memory of a transfer to n bytes. If the loop then has more than two pieces
// unused, it keeps one and gives the rest back to the pool. If it uses no memory at all, it keeps
// nothing.
func (m *memory) lower(cost *int64, n int64) {
	less := *cost - n
	if less <= 0 {
		return
	}
	m.left += less
	keep := m.pool.piece
	if m.held.Add(-less) == 0 {
		keep = 0
	}
	*cost = n
	if keep == 0 || m.left > 2*keep {
		m.pool.free.Add(m.left - keep)
		m.left = keep
	}
}

// available returns how many bytes the loop can still take. It does not include bytes that other
// loops have leased but do not use.
func (m *memory) available() int64 { return m.pool.free.Load() + m.left }

// isScarce reports whether less than half of the memory is available. If so, transfers get no more
// than they need.
func (m *memory) isScarce() bool { return m.available() < m.pool.limit/2 }

// mostForWindow returns how many bytes the window of another upload may have, so that enough is
// left for other transfers.
func (m *memory) mostForWindow() int64 {
	free := m.available() - m.pool.promised.Load() - m.pool.limit/spareShare
	return max(0, free) / ringShare / 2
}

// reserve records the bytes that an upload will need if its peer exists. They are not taken yet, so
// forged requests can only make the windows of other uploads smaller, and only for some seconds.
func (m *memory) reserve(reserved *int64, n int64) {
	if n != *reserved {
		m.pool.promised.Add(n - *reserved)
		*reserved = n
	}
}
