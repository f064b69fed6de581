package tftp

import (
	"time"

	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/transfer"
)

// store puts a chunk into the write buffer, whose memory the first one takes: before
// that, nothing shows that the peer exists.
func (s *session) store(now time.Time, c transfer.Chunk) error {
	if s.ringCost == 0 {
		s.shard.prove(now, s, true)
		if err := s.shard.grantRing(s); err != nil {
			return err
		}
	}
	if err := fileio.CheckAnnounced(s.request.Offer, s.request.Mode, c, s.receiver.Received()); err != nil {
		return err
	}
	return s.buffer.Put(c, s.receiver.Received())
}

// acknowledge lets the ACK go that is due if the write buffer could take another window,
// and sends what has gathered on its way to the store.
func (s *session) acknowledge(now time.Time) {
	window := int64(max(1, s.receiver.Agreed().Window)) * int64(s.receiver.BlockSize())
	if s.state != storing && s.buffer.Fits(window) {
		s.waits.end(now)
		s.confirm(now)
	} else {
		s.waits.begin(now)
	}
	s.maybeFlush()
}

// maybeFlush gives a worker what has gathered, if it is half a ring or the
// rest of the file.
func (s *session) maybeFlush() {
	if s.job != fileio.NoJob {
		return
	}
	if s.state == storing {
		s.buffer.Mark()
		s.shard.submit(s, fileio.CommitJob)
	} else if s.buffer.IsHalfFull() {
		s.buffer.Mark()
		s.shard.submit(s, fileio.FlushJob)
	}
}

// leastRing returns the bytes that hold two windows of an upload.
func (s *session) leastRing() int {
	return max(2*max(1, s.receiver.Agreed().Window)*s.receiver.BlockSize(), minRing)
}

// grantRing gives an upload its memory.
func (sh *shard) grantRing(s *session) error {
	size := s.leastRing()
	m := &sh.memory
	if m.available()-m.pool.promised.Load() > m.pool.limit/2 {
		size = max(size, fairRing)
	}
	m.reserve(&s.reserved, 0)
	if !m.take(&s.ringCost, int64(size)) {
		return errMemory
	}
	s.buffer.Reset(size, sh.server.config.MaxUpload, s.request.Mode)
	return nil
}

// dropRing takes the memory of an upload that is published, and has no job out.
func (sh *shard) dropRing(s *session) {
	sh.memory.release(&s.ringCost)
	s.buffer = s.buffer.Spare(minRing)
}
