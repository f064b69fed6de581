package sftpclient

import (
	"github.com/haul-project/haul/sftp/internal/mux"

	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"time"
)

const (
	// maxRuns is how many ranges of a file, apart from each other, may be
	// written behind at a time.
	maxRuns = 64

	// maxCopy is how many bytes are copied at once under the lock of the mux.
	maxCopy = 32 << 10

	// sureSegments is how many segments a file may have whatever others hold.
	sureSegments = 2
)

// behind is what a file has to write.
type behind struct {
	runs  []*run        // File.mu: oldest first
	bell  chan struct{} // of all runs
	wrote bool          // File.mu: the server was asked to write
	err   error         // File.mu: what went wrong first
	whole int64         // File.mu: up to here nothing is missing, of what has failed

	// mux.mu: how many there are, and how many bytes their buffers have.
	segments int
	held     int64
}

// Write writes p at the end of what Read and Write have done so far, and behind
// the back of the program: see [File].
func (f *File) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.write(p, f.pos)
	f.pos += int64(n)
	return n, err
}

// WriteAt writes p at off, like Write. In a file that was opened to append to,
// it goes to the end.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.append && off >= 0 {
		n, err := f.write(p, f.pos)
		f.pos += int64(n)
		return n, err
	}
	return f.write(p, off)
}

// write writes p. The caller holds mu.
func (f *File) write(p []byte, off int64) (n int, err error) {
	if err := f.forWriting("write", off, len(p)); err != nil {
		return 0, err
	}
	if f.behind.err != nil || len(p) == 0 {
		return 0, f.behind.err
	}
	f.dropAhead()
	f.behind.wrote = true
	if f.c.config.NoWriteBehind {
		n, err := f.fillFrom(f.life, at{bytes.NewReader(p), off}, off, int64(len(p)))
		return int(n), err
	}
	r, err := f.runAt(off, int64(len(p)))
	if err != nil {
		return 0, err
	}
	for n < len(p) {
		some, err := r.add(p[n:])
		n += some
		if err != nil {
			return n, f.explained(f.noteFailure(err))
		}
	}
	return n, nil
}

// An at is a reader at another place.
type at struct {
	r   io.ReaderAt
	off int64
}

func (a at) ReadAt(p []byte, off int64) (int, error) { return a.r.ReadAt(p, off-a.off) }

// noteFailure notes that writing has failed, and returns the first error.
// The caller holds mu.
func (f *File) noteFailure(err error) error {
	if f.behind.err == nil {
		f.behind.err = err
	}
	return f.behind.err
}

// runAt returns the run that ends at off, or a new one. What overlaps is waited
// for. The caller holds mu.
func (f *File) runAt(off, n int64) (*run, error) {
	m := f.c.mux
	m.Lock()
	overlaps, kept := false, f.behind.runs[:0]
	var found *run
	for _, r := range f.behind.runs {
		switch {
		case r.end == off:
			found = r
		case r.idle():
			r.t.Finish()
			continue
		case r.start < off+n && off < r.end:
			overlaps = true
		}
		kept = append(kept, r)
	}
	clear(f.behind.runs[len(kept):])
	f.behind.runs = kept
	m.Unlock()
	if found != nil && !overlaps {
		return found, nil
	}
	if overlaps || len(f.behind.runs) == maxRuns {
		if err := f.awaitWritesLocked(f.life); err != nil {
			return nil, err
		}
	}
	if f.behind.bell == nil {
		f.behind.bell = make(chan struct{}, 1)
	}
	r := &run{f: f, start: off, end: off}
	r.t = &mux.Transfer{File: f.remote, Source: r, Notified: f.behind.bell}
	m.Lock()
	defer m.Unlock()
	m.Begin(r.t, f.fillConfig(off, -1))
	r.t.Plan.Limit(off)
	f.behind.runs = append(f.behind.runs, r)
	f.dirty.Store(true)
	return r, nil
}

// awaitWrites waits until the server has confirmed what was written, and returns
// what went wrong with it.
func (f *File) awaitWrites(ctx context.Context) error {
	if !f.dirty.Load() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.awaitWritesLocked(ctx)
}

// awaitWritesLocked is awaitWrites for callers that hold mu.
func (f *File) awaitWritesLocked(ctx context.Context) error {
	if !f.dirty.Load() || f.behind.err != nil {
		return f.behind.err
	}
	return f.explained(f.awaitRuns(ctx))
}

// awaitRuns waits until all runs are over. The caller holds mu.
func (f *File) awaitRuns(ctx context.Context) error {
	m := f.c.mux
	m.Lock()
	defer m.Unlock()
	now := time.Now()
	for _, r := range f.behind.runs {
		r.t.Plan.EndAt(r.end)
		r.t.Ask(now)
	}
	m.Serve(now)
	for len(f.behind.runs) > 0 {
		r := f.behind.runs[0]
		for !r.t.Over() {
			m.Unlock()
			err := r.t.Wait(ctx, f.life, time.Time{})
			m.Lock()
			if err != nil {
				// It is not known what becomes of the rest. Close sees to it.
				for _, r := range f.behind.runs {
					r.t.Halt(err)
				}
				return f.noteFailure(f.failed("write", r.t.Plan.Contiguous(), err, true))
			}
		}
		f.forgetRun()
	}
	f.dirty.Store(false)
	return f.behind.err
}

// forgetRun forgets the first run, which is over. The caller holds mu and
// mux.mu.
func (f *File) forgetRun() {
	r := f.behind.runs[0]
	if r.failed() {
		f.behind.whole = min(f.behind.whole, r.t.Plan.Contiguous())
		_ = f.noteFailure(r.failure())
	}
	r.t.Finish()
	r.drop()
	f.behind.runs = append(f.behind.runs[:0], f.behind.runs[1:]...)
}

// endBehind ends writing when the file is closed: what is not confirmed is given
// up. If anything has failed, the file is cut, if that is wanted. The caller holds
// mu.
func (f *File) endBehind(ctx context.Context, cut bool) error {
	m := f.c.mux
	m.Lock()
	for len(f.behind.runs) > 0 {
		r := f.behind.runs[0]
		if !r.idle() {
			r.t.Halt(errGivenUp)
		}
		for err := error(nil); !r.t.Over() && r.t.Plan.Outstanding() > 0 && err == nil; {
			m.Unlock()
			err = r.t.Wait(ctx, ctx, time.Time{})
			m.Lock()
		}
		f.forgetRun()
	}
	m.Unlock()
	if !cut || f.behind.err == nil || f.behind.whole == math.MaxInt64 {
		return nil
	}
	return f.cut(ctx, f.behind.whole)
}

// errGivenUp says that a file was closed before the server had confirmed what
// was written to it.
var errGivenUp = fmt.Errorf("closed before it was written")

// ReadFrom writes what r has until it ends, like Write, and without copying it
// twice. The error of r comes as a [*TransferError].
func (f *File) ReadFrom(r io.Reader) (n int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.forWriting("write", f.pos, 0); err != nil {
		return 0, err
	}
	if f.behind.err != nil {
		return 0, f.behind.err
	}
	f.dropAhead()
	f.behind.wrote = true
	if f.c.config.NoWriteBehind {
		return f.readFromDirect(r)
	}
	w, err := f.runAt(f.pos, 1)
	if err != nil {
		return 0, err
	}
	for {
		some, err := w.readFrom(r)
		n += int64(some)
		f.pos += int64(some)
		switch {
		case err == io.EOF:
			return n, nil
		case f.behind.err != nil:
			return n, f.explained(err)
		case err != nil:
			return n, err // of r
		}
	}
}

// readFromDirect is ReadFrom without writing behind.
func (f *File) readFromDirect(r io.Reader) (n int64, err error) {
	b := mux.NewBuffer(f.c.server.Chunk[1])
	defer b.Free()
	for {
		got, rerr := io.ReadFull(r, b.Bytes[:f.c.server.Chunk[1]])
		some, err := f.fillFrom(f.life, at{bytes.NewReader(b.Bytes[:got]), f.pos}, f.pos, int64(got))
		n += some
		f.pos += some
		switch {
		case err != nil:
			return n, err
		case rerr == io.EOF || rerr == io.ErrUnexpectedEOF:
			return n, nil
		case rerr != nil:
			return n, &TransferError{Op: "write", Name: f.name, Offset: f.pos, Local: true, Err: rerr}
		}
	}
}
