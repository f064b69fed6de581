package tftp

import "sync/atomic"

// A pool manages [Config].Memory: the bytes that transfers may hold in buffers whose size depends
// on the transfer. The few hundred bytes that each transfer always needs do not count. Loops lease
// the memory in pieces (docs/decisions/023).
type pool struct {
	limit    int64        // bytes
	piece    int64        // least that a loop leases at once; a loop keeps at most two pieces unused
	free     atomic.Int64 // bytes that are not leased
	promised atomic.Int64 // bytes that uploads will need for the agreed windows
}

// A memory is the part of a pool that one loop has leased.
type memory struct {
	pool *pool
	left int64        // leased but not used
	held atomic.Int64 // used; other goroutines read it
}

const (
	minRing  = 8 << 10  // bytes that one upload may buffer
	fairRing = 64 << 10 // the same while more than half of the memory is left, for fewer, larger writes

	// maxWindowBytes bounds the window of one transfer. A larger one does not help on any link that
	// TFTP is used on, but helps forgers of requests.
	maxWindowBytes = 2 << 20

	ringShare = 8 // one upload gets at most 1/ringShare of the memory that is left

	// 1/spareShare of the memory is kept for small windows, so that the last transfer gets one too.
	spareShare = 8

	// A reader may get more memory than it needs at the moment, up to 1/fetchShare of what is left.
	fetchShare = 64

	// A piece has at most maxPiece bytes, and all loops together have at most 1/unusedShare of the
	// memory leased but unused.
	maxPiece    = 64 << 10
	unusedShare = 16
)

// set makes n bytes available to the given number of loops.
func (p *pool) set(n int64, loops int) {
	p.limit = n
	p.piece = min(maxPiece, n/int64(2*unusedShare*loops))
	p.free.Store(n)
	p.promised.Store(0)
}

// lease takes between least and most free bytes, or none, and returns how many it took.
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

// take raises a cost to n bytes and reports true, if enough memory is left.
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

// release returns the memory of a cost.
func (m *memory) release(cost *int64) { m.lower(cost, 0) }

// lower reduces a cost to n bytes. If more than two pieces are then unused, the loop keeps one of
// them. A loop that uses no memory keeps no piece. Other loops can lease the rest.
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

// available returns how many bytes the loop could take. It does not include bytes that other loops
// have leased but not used.
func (m *memory) available() int64 { return m.pool.free.Load() + m.left }

// isScarce reports whether less than half of the memory is available. If so, transfers get only
// what they need.
func (m *memory) isScarce() bool { return m.available() < m.pool.limit/2 }

// mostForWindow returns how many bytes the window of another upload may take while leaving room for
// others.
func (m *memory) mostForWindow() int64 {
	free := m.available() - m.pool.promised.Load() - m.pool.limit/spareShare
	return max(0, free) / ringShare / 2
}

// reserve records the bytes that an upload will need if its peer exists. So forged requests can
// only make the windows of other uploads smaller, and only for some seconds.
func (m *memory) reserve(reserved *int64, n int64) {
	if n != *reserved {
		m.pool.promised.Add(n - *reserved)
		*reserved = n
	}
}
