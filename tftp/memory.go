package tftp

import (
	"sync/atomic"

	"github.com/haul-project/haul/tftp/transfer"
)

// A memory is a shard's part of [Server.Memory]: what its transfers may hold in
// buffers that have a transfer's size. The few hundred bytes that each has in
// any case do not count.
type memory struct {
	limit, left int64        // bytes
	reserved    int64        // of left, what uploads will need for the windows agreed on
	held        atomic.Int64 // limit - left, for others to read
}

const (
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

// mostBlocks returns the largest window for the block size agreed on. An upload
// gets no more than a share of the memory that is left and not promised, so
// that large requests leave room for others.
func (sh *shard) mostBlocks(agreed transfer.Options, write bool) int {
	most := int64(maxWindowBytes)
	if write {
		m := &sh.memory
		free := m.left - m.reserved - m.limit/spareShare
		most = min(most, max(0, free)/ringShare/2)
	}
	return max(1, int(most/int64(max(agreed.BlockSize, transfer.DefaultBlockSize))))
}

// reserve notes what an upload will need if its peer turns out to exist. Forged
// requests make the windows of others smaller, for some seconds, and no more.
func (sh *shard) reserve(s *session, n int64) {
	sh.memory.reserved += n - s.reserved
	s.reserved = n
}

// leastRing returns the bytes that hold two windows of an upload.
func (s *session) leastRing() int {
	return max(2*max(1, s.receiver.Agreed().Window)*s.receiver.BlockSize(), minRing)
}

// grantRing gives an upload its memory.
func (sh *shard) grantRing(s *session) error {
	size := s.leastRing()
	if sh.memory.left-sh.memory.reserved > sh.memory.limit/2 {
		size = max(size, fairRing)
	}
	sh.reserve(s, 0)
	if !sh.memory.take(&s.ringCost, int64(size)) {
		return errMemory
	}
	if cap(s.buffer.ring) < size {
		s.buffer.ring = make([]byte, size)
	}
	s.buffer.reset(s.buffer.ring[:size], sh.server.MaxUpload, s.request.Mode)
	return nil
}

// dropRing takes the memory of an upload that is published, and has no job out.
func (sh *shard) dropRing(s *session) {
	sh.memory.release(&s.ringCost)
	if cap(s.buffer.ring) > minRing {
		s.buffer.ring = nil
	}
}
