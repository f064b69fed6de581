package sftpclient

import (
	"context"
	"io"

	"github.com/haul-project/haul/sftp/internal/mux"
)

// readAhead reads at off, where the reader is expected to continue. The caller
// holds mu.
func (f *File) readAhead(p []byte, off int64) (n int, err error) {
	r := f.ahead
	if r == nil || r.pos != off {
		f.startAhead(off, int64(max(len(p), f.c.server.ReadChunk)))
		r = f.ahead
	}
	if len(r.block.b) == 0 {
		if err := r.fill(); err != nil {
			f.dropAhead() // the next try asks again
			return 0, err
		}
	}
	n = copy(p, r.block.b)
	r.took(n)
	return n, nil
}

// Read reads what comes next, and reads ahead: see [File].
func (f *File) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.forReading(f.pos); err != nil {
		return 0, err
	}
	if err := f.behind.await(f.life); err != nil {
		return 0, err
	}
	if f.c.config.NoReadAhead {
		n, err := f.readDirect(p, f.pos)
		f.pos += int64(n)
		if n > 0 && err == io.EOF {
			err = nil
		}
		return n, err
	}
	n, err := f.readAhead(p, f.pos)
	f.pos += int64(n)
	return n, err
}

// ReadAt reads into p what is at off. A large p is filled by many requests at
// once. See [File] about reading ahead.
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	if err := f.forReading(off); err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if f.small != nil {
		return f.readSmall(p, off)
	}
	if f.behind.dirty.Load() {
		if err := f.awaitWrites(f.life); err != nil {
			return 0, err
		}
	}
	if !f.inOrder(off, len(p)) {
		return f.readDirect(p, off)
	}
	defer f.mu.Unlock()
	for n < len(p) && err == nil {
		var some int
		some, err = f.readAhead(p[n:], off+int64(n))
		n += some
	}
	if n == len(p) {
		err = nil
	}
	return n, err
}

// inOrder reports whether a ReadAt is one of several that go through the file
// one after the other. If so, it has locked mu.
func (f *File) inOrder(off int64, n int) bool {
	if f.c.config.NoReadAhead || !f.mu.TryLock() {
		return false
	}
	follows := off == f.next && n <= f.c.config.Memory/4 || f.ahead != nil && f.ahead.pos == off
	f.next = off + int64(n)
	if !follows {
		f.mu.Unlock()
	}
	return follows
}

// WriteTo writes what is left of the file to w, with as much in flight as the
// path holds. Errors are those of FetchTo.
func (f *File) WriteTo(w io.Writer) (n int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.forReading(f.pos); err != nil {
		return 0, err
	}
	if err := f.behind.await(f.life); err != nil {
		return 0, err
	}
	if f.c.config.NoReadAhead {
		return f.writeToDirect(w)
	}
	if f.ahead == nil || f.ahead.pos != f.pos {
		f.startAhead(f.pos, int64(f.c.config.Memory))
	}
	r := f.ahead
	r.ahead = int64(f.c.config.Memory)
	for {
		if len(r.block.b) == 0 {
			if err := r.fill(); err != nil {
				f.dropAhead()
				if err == io.EOF {
					return n, nil
				}
				return n, err
			}
		}
		b := r.block.b
		some, err := w.Write(b)
		if err == nil && some < len(b) {
			err = io.ErrShortWrite
		}
		some = min(max(some, 0), len(b))
		r.took(some)
		f.pos += int64(some)
		n += int64(some)
		if err != nil {
			return n, &TransferError{Op: "read", Name: f.name, Offset: f.pos, Local: true, Err: err}
		}
	}
}

// writeToDirect is WriteTo without reading ahead.
func (f *File) writeToDirect(w io.Writer) (n int64, err error) {
	b := mux.NewBuffer(f.c.server.ReadChunk)
	defer b.Free()
	for {
		got, err := f.readDirect(b.Bytes[:f.c.server.ReadChunk], f.pos)
		some, werr := w.Write(b.Bytes[:got])
		f.pos += int64(some)
		n += int64(some)
		switch {
		case werr != nil:
			return n, &TransferError{Op: "read", Name: f.name, Offset: f.pos, Local: true, Err: werr}
		case err == io.EOF:
			return n, nil
		case err != nil:
			return n, err
		}
	}
}

// FetchTo writes the file from off up to its end to w, with many requests on
// their way at once, and returns how many bytes from off on have come without a
// gap. w is written at the offsets of the file, in any order and by one
// goroutine.
//
// An error is a [*TransferError], whose Local is set if w has failed, or a context has ended.
// Then w may have bytes behind the returned number too: cut it there.
func (f *File) FetchTo(ctx context.Context, w io.WriterAt, off int64) (int64, error) {
	if err := f.forReading(off); err != nil {
		return 0, err
	}
	if f.small != nil {
		return f.fetchSmall(w, off)
	}
	if err := f.awaitWrites(ctx); err != nil {
		return 0, err
	}
	return f.fetch(ctx, w, off)
}
