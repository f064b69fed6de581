package treecopy

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"

	"github.com/haul-project/haul/store"
)

// A move transfers the content of one file to the target.
type move struct {
	task *task
	f    *file
	src  store.File
	dst  io.WriterAt

	upload store.Upload // dst as an upload; nil if the file is written in place

	mu   sync.Mutex
	high int64 // number of bytes reported to the hooks; guarded by mu

	cloned bool // the target's server made the copy by itself
}

// note reports n more bytes to the hooks.
func (m *move) note(n int64) {
	m.mu.Lock()
	m.high += n
	m.mu.Unlock()
	m.task.report.progress(m.f.item, n)
}

// reach reports to the hooks that the target has the bytes up to end. Bytes that were reported
// before are not reported again.
func (m *move) reach(end int64) {
	m.mu.Lock()
	n := max(0, end-m.high)
	m.high += n
	m.mu.Unlock()
	m.task.report.progress(m.f.item, n)
}

// takeBack reports to the hooks that all bytes reported so far are discarded.
func (m *move) takeBack() {
	m.mu.Lock()
	n := m.high
	m.high = 0
	m.mu.Unlock()
	m.task.report.progress(m.f.item, -n)
}

// moved returns the number of bytes that this copy transferred, without the `resumed` bytes that an
// earlier copy had transferred.
func (m *move) moved(resumed int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, m.high-resumed)
}

// run transfers the bytes from off to the end of the source, and returns the offset at which the
// source ended.
func (m *move) run(off int64) (end int64, err error) {
	fetcher, fetches := store.As[store.RemoteFile](m.src)
	filler, fills := store.As[store.Filler](m.dst)
	size := m.f.info.Size()
	if clone := m.task.to.can.Clone; clone != nil && m.upload != nil && off == 0 && size > 0 && m.task.opts.Limit == 0 {
		end, err := clone(m.task.ctx, m.upload, m.src, m.note)
		if !errors.Is(err, errors.ErrUnsupported) {
			m.cloned = err == nil
			return end, err
		}
	}
	switch {
	case fetches && fills:
		// If both sides use the same connection, data that was fetched but is not stored yet could
		// fill the connection's window, so that requests to store the data would have no room. So
		// transfer piece by piece below, which also reads ahead and writes behind.
	case fetches:
		n, err := fetcher.FetchTo(m.task.ctx, m.sink(), off)
		return off + n, err
	case m.leavesHoles() && off == 0:
		err = eachData(m.src, size, func(from, to int64) error {
			if fills {
				return m.fill(filler, from, to)
			}
			return m.loop(from, to)
		})
		if err == nil {
			off = size
			m.reach(off)
		}
	case fills:
		err = m.fill(filler, off, size)
		off = max(off, size)
	}
	if err != nil {
		return off, err
	}
	// Transfer the bytes from off: all of them or, if a case above has transferred the others, only
	// those beyond the listed size.
	return m.pieces(off, math.MaxInt64)
}

// leavesHoles reports whether pages of zeros are not written. They are written to an upload that
// can be resumed, as the part that it keeps must not have gaps.
func (m *move) leavesHoles() bool {
	_, kept := store.As[store.Resumer](m.dst)
	return m.task.opts.Sparse && !kept
}

func (m *move) sink() *sink { return &sink{m: m, skip: m.leavesHoles()} }

// fill transfers a part of the source with the target's method FillFrom.
func (m *move) fill(w store.Filler, from, to int64) error {
	if from >= to {
		return nil
	}
	s := &source{m: m}
	_, err := w.FillFrom(m.task.ctx, s, from, to-from)
	if s.ended.Load() && err != nil {
		return fmt.Errorf("%w: it had %d bytes, and ends before: %w", ErrChanged, m.f.info.Size(), io.ErrUnexpectedEOF)
	}
	return err
}

// loop transfers a part of the source piece by piece. It returns an error if the source ends before
// `to`.
func (m *move) loop(from, to int64) error {
	end, err := m.pieces(from, to)
	if err == nil && end < to {
		err = fmt.Errorf("%w: it had %d bytes and has %d", ErrChanged, m.f.info.Size(), end)
	}
	return err
}

// pieces transfers the bytes of the source from off up to `to`, or to the end of the source if that
// comes first. It returns the offset at which it stopped.
func (m *move) pieces(off, to int64) (end int64, err error) {
	w := m.sink()
	err = m.task.eachPiece(m.src, off, to, false, func(p []byte) error {
		if _, err := w.WriteAt(p, off); err != nil {
			return err
		}
		off += int64(len(p))
		return nil
	})
	return off, err
}

// A sink writes to the target of a move. It applies the rate limit, and reports progress.
type sink struct {
	m    *move
	skip bool // do not write pages of zeros: unwritten bytes read as zeros
}

// WriteAt waits until the rate limit allows it, and then writes p.
func (s *sink) WriteAt(p []byte, off int64) (n int, err error) {
	if err := s.m.task.wait(s.m.task.ctx, len(p)); err != nil {
		return 0, err
	}
	if s.skip {
		n, err = writeData(s.m.dst, p, off)
	} else {
		n, err = s.m.dst.WriteAt(p, off)
	}
	s.m.note(int64(n))
	return n, err
}

// A source reads the source of a move for a [store.Filler]. The Filler may read a part again after
// it has lost its connection.
type source struct {
	m     *move
	ended atomic.Bool // the source is shorter than it was when it was listed
}

// ReadAt waits until the rate limit allows it, and then reads.
func (s *source) ReadAt(p []byte, off int64) (int, error) {
	if err := s.m.task.wait(s.m.task.ctx, len(p)); err != nil {
		return 0, err
	}
	n, err := s.m.src.ReadAt(p, off)
	if n < len(p) && (err == nil || errors.Is(err, io.EOF)) {
		s.ended.Store(true)
	}
	s.m.reach(off + int64(n))
	return n, err
}
