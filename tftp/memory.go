package tftp

import "sync/atomic"

// A memory is a shard's part of [Server.Memory]: what its transfers may hold in
// buffers that have a transfer's size. The few hundred bytes that each has in
// any case do not count.
type memory struct {
	limit, left int64        // bytes
	reserved    int64        // of left, what uploads will need for the windows agreed on
	held        atomic.Int64 // limit - left, for others to read
}

const (
	minRing  = 8 << 10  // what one upload may gather in memory, in bytes
	fairRing = 64 << 10 // the same, while half of the memory is left: fewer, larger writes

	// maxWindowBytes bounds the window of one transfer: more is of no use to
	// any link that TFTP is used on, and of much to who forges requests.
	maxWindowBytes = 2 << 20

	ringShare = 8 // one upload gets this part of what is left, at most

	// A part of the memory is no reason for large windows, so the last transfer
	// gets a small one: 1/spareShare of it.
	spareShare = 8

	// A reader gets more than it needs at once as long as that is less than
	// 1/fetchShare of what is left.
	fetchShare = 64
)

// take raises a cost to n bytes, if that much is left.
func (m *memory) take(cost *int64, n int64) bool {
	more := n - *cost
	if more <= 0 {
		return true
	}
	if more > m.left {
		return false
	}
	m.left -= more
	*cost = n
	m.held.Store(m.limit - m.left)
	return true
}

// release takes a cost back.
func (m *memory) release(cost *int64) {
	if *cost != 0 {
		m.left += *cost
		*cost = 0
		m.held.Store(m.limit - m.left)
	}
}
