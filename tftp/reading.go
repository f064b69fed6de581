package tftp

import (
	"errors"
	"io"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/transfer"
)

const (
	// A run of minParted blocks or more leaves in two parts if nothing else is to be
	// sent: the network carries the first, one part in headStart, while the rest is read
	// and cut. For shorter runs the system call costs more than it gains. Below a round trip
	// of networkTrip there is no wire to keep busy.
	minParted   = 16
	headStart   = 8
	networkTrip = 100 * time.Microsecond
)

// sendData sends the blocks that are due, until the file is not in memory.
func (s *session) sendData(now time.Time) {
	ahead := len(s.shard.scheduled) == 1 && s.sender.Stats().RTT >= networkTrip
	for s.job == fileio.NoJob {
		run := s.sender.Due(now)
		if run.Blocks == 0 {
			return
		}
		early := ahead && run.Blocks >= minParted
		if early {
			run.Blocks, ahead = run.Blocks/headStart, false
		}
		if s.isLimited() {
			run.Blocks = s.atOnce(run)
		}
		before := s.sender.Stats().Sent
		ok, err := s.shard.out.AddData(now, s.peer, s.local, s.sender, run, s)
		switch {
		case ok:
			s.holdBlocks(now, min(run.Bytes, (s.sender.Stats().Sent-before)*int64(s.sender.BlockSize())))
			if early {
				s.shard.out.Flush()
			}
		case errors.Is(err, store.ErrWouldBlock), errors.Is(err, errors.ErrUnsupported):
			s.park(now, run)
			return
		case err == nil, errors.Is(err, io.EOF):
			s.abort(now, fileio.ErrChanged)
			s.shard.out.AddReply(now, s.peer, s.local, s.sender)
			return
		default:
			s.abort(now, err)
			s.shard.out.AddReply(now, s.peer, s.local, s.sender)
			return
		}
	}
}

// park has a worker fetch the file's bytes for a run.
func (s *session) park(now time.Time, run transfer.Run) {
	memory := &s.shard.memory
	want := s.fetch.Aim(run, s.sender.BlockSize(), memory.available()/fetchShare)
	if !memory.take(&s.fetchCost, int64(want)) {
		s.abort(now, errMemory)
		s.shard.out.AddReply(now, s.peer, s.local, s.sender)
		return
	}
	s.waits.begin(now)
	s.shard.submit(s, fileio.FetchJob)
}

// TryReadAt reads from what was fetched, or else from the file's memory.
func (s *session) TryReadAt(bufs [][]byte, off int64) (int, error) {
	if n := s.fetch.CopyTo(bufs, off); n > 0 {
		return n, nil
	}
	if s.try == nil {
		return 0, store.ErrWouldBlock
	}
	if len(bufs) == 1 {
		p := bufs[0]
		size := s.shard.aheadSize()
		switch {
		case len(p) > maxAhead/minReads:
		case s.readShared(p, off):
			return len(p), nil
		case len(p) <= size/minReads && s.readAhead(off, size) >= len(p):
			return s.fetch.CopyTo(bufs, off), nil
		}
	}
	return fileio.TryBlocks(s.try, bufs, off)
}

// aheadSize returns how many bytes a session may read ahead at present.
func (sh *shard) aheadSize() int {
	switch {
	case sh.busy <= aheadShare/maxAhead:
		return maxAhead
	case sh.busy <= aheadShare/maxAhead*2:
		return maxAhead / 2
	}
	return minAhead
}

// readAhead reads what is in memory at off and behind, for the small blocks
// of a transfer in lock-step: a system call for each costs as much as a tenth
// of all else.
func (s *session) readAhead(off int64, size int) int {
	m := &s.shard.memory
	if had := s.fetch.Capacity(); had == maxAhead && size < had {
		s.fetch = fileio.FetchBuffer{} // more have come, who want some too
		m.release(&s.fetchCost)
	}
	if left := max(s.size-off, minAhead); s.fetch.Capacity() == 0 && left < int64(size) {
		size = int(left) // many small files need not have memory cleared for large ones
	}
	if s.fetchCost < int64(size) && (m.isScarce() || !m.take(&s.fetchCost, int64(size))) {
		return 0
	}
	return s.fetch.ReadAhead(s.try, off, size)
}
