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

// A move is the content of a file on its way.
type move struct {
	task *task
	f    *file
	src  store.File
	dst  io.WriterAt

	upload store.Upload // dst, unless the file is written in place

	mu   sync.Mutex
	high int64 // mu: the bytes reported to the hooks

	cloned bool // the target's server has copied it
}

// note reports n bytes more to the hooks.
func (m *move) note(n int64) {
	m.mu.Lock()
	m.high += n
	m.mu.Unlock()
	m.task.report.progress(m.f.item, n)
}

// reach reports bytes up to end to the hooks, unless it did before.
func (m *move) reach(end int64) {
	m.mu.Lock()
	n := max(0, end-m.high)
	m.high += n
	m.mu.Unlock()
	m.task.report.progress(m.f.item, n)
}

// takeBack takes back the bytes reported to the hooks.
func (m *move) takeBack() {
	m.mu.Lock()
	n := m.high
	m.high = 0
	m.mu.Unlock()
	m.task.report.progress(m.f.item, -n)
}

// moved returns how many bytes were moved after those that were there.
func (m *move) moved(resumed int64) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, m.high-resumed)
}

// run moves what is behind off, and returns where the source ended.
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
		// If both are of one connection, what the one has got and not stored
		// would take the room that the other needs to store it. Piece by piece
		// it reads ahead and writes behind.
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
	// The bytes behind that, or all of them.
	return m.pieces(off, math.MaxInt64)
}

// leavesHoles reports whether zeros are left out. A part that is kept has no gaps.
func (m *move) leavesHoles() bool {
	_, kept := store.As[store.Resumer](m.dst)
	return m.task.opts.Sparse && !kept
}

func (m *move) sink() *sink { return &sink{m: m, skip: m.leavesHoles()} }

// fill moves a part of the source by the target's own way.
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

// loop moves a part of the source piece by piece.
func (m *move) loop(from, to int64) error {
	end, err := m.pieces(from, to)
	if err == nil && end < to {
		err = fmt.Errorf("%w: it had %d bytes and has %d", ErrChanged, m.f.info.Size(), end)
	}
	return err
}

// pieces moves what the source has up to an offset, or up to its end.
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

// A sink is the target, as seen by the source.
type sink struct {
	m    *move
	skip bool // leave out pages of zeros: what is not written reads as zeros
}

// WriteAt stores p, when the limit lets it.
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

// A source is the source, as seen by a [store.Filler]. It may read a part twice, if a
// connection is lost under it.
type source struct {
	m     *move
	ended atomic.Bool // it is shorter than it was
}

// ReadAt reads, when the limit lets it.
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
