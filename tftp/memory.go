package tftp

import (
	"sync/atomic"

	"github.com/haul-project/haul/tftp/transfer"
)

// A memory is a shard's part of [Server.Memory]: what its transfers may hold
// in buffers that have a transfer's size. What they have in any case, a few
// hundred bytes each, does not count.
type memory struct {
	limit, left int64        // bytes
	held        atomic.Int64 // limit - left, for others to read
}

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

// give takes a cost back.
func (m *memory) give(cost *int64) {
	if *cost != 0 {
		m.left += *cost
		*cost = 0
		m.held.Store(m.limit - m.left)
	}
}

// mostBlocks returns the largest window for the block size agreed on. For an
// upload nobody gets more than a share of the memory that is left, so that
// those who ask for much leave room for others.
func (sh *shard) mostBlocks(agreed transfer.Options, write bool) int {
	most := int64(maxWindowBytes)
	if write {
		most = min(most, sh.memory.left/ringShare/2)
	}
	return max(1, int(most/int64(max(agreed.BlockSize, transfer.DefaultBlockSize))))
}

// grantRing gives an upload its memory.
func (sh *shard) grantRing(s *session) error {
	least := minRing
	if sh.memory.left > sh.memory.limit/2 {
		least = fairRing
	}
	size := max(2*max(1, s.receiver.Agreed().Window)*s.receiver.BlockSize(), least)
	if !sh.memory.take(&s.ringCost, int64(size)) {
		return errMemory
	}
	if cap(s.intake.ring) < size {
		s.intake.ring = make([]byte, size)
	}
	s.intake.reset(s.intake.ring[:size], sh.server.MaxUpload, s.request.Mode)
	return nil
}

// dropRing takes the memory of an upload that is published, and has no job out.
func (sh *shard) dropRing(s *session) {
	sh.memory.give(&s.ringCost)
	if cap(s.intake.ring) > minRing {
		s.intake.ring = nil
	}
}
