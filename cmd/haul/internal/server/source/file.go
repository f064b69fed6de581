package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/store"
)

const (
	// maxReopens is how many times in a row a file is opened again if no further byte arrives.
	maxReopens = 3

	// settled is how old the last change of a file must be, when the file is first opened, so that
	// its size and time identify it when it is opened again. A younger file could change without a
	// visible change of its time, because times on an SFTP server are in whole seconds, and clocks
	// differ.
	settled = time.Minute

	// A read may take readTime plus leastTime for each leastBytes. readTime allows for an upstream
	// that is unreachable or asks for a retry later. Without this bound, an upstream that sends a
	// byte now and then would block its readers forever.
	readTime   = time.Minute
	leastBytes = 16 << 10
)

var errTrickle = fmt.Errorf("the source sends less than %d KiB in %v", leastBytes>>10, leastTime)

// A file is a file of an upstream that is open for reading. If its connection is lost and cannot
// recover by itself, the file is opened again on the next connection.
type file struct {
	link   *link
	name   string
	caller context.Context // the context that was passed to Open

	mu     sync.RWMutex
	span   *span       // guarded by mu
	file   store.File  // guarded by mu
	info   fs.FileInfo // the description of the file when it was first opened; guarded by mu
	opened time.Time   // guarded by mu
	ended  bool        // guarded by mu

	slow atomic.Pointer[store.File] // the upstream's file that was closed most recently because a read took too long
}

// open opens the file on the current connection.
func (f *file) open() error {
	s, err := f.link.call(f.caller, false, func(s *span) error {
		opened, err := s.tree.Open(s.ctx, f.name)
		if err != nil {
			return err
		}
		info, err := opened.Stat()
		if err != nil {
			_ = opened.Close()
			return err
		}
		if f.info != nil && !f.isSame(info) {
			_ = opened.Close()
			return &fs.PathError{Op: "read", Path: f.name, Err: store.ErrChanged}
		}
		s.opened, f.file = opened, opened
		if f.info == nil {
			f.info, f.opened = info, time.Now()
		}
		return nil
	})
	if err == nil {
		f.span = s
	}
	return err
}

// isSame reports whether the file with the description `now` is certainly the unchanged file that
// was first opened.
func (f *file) isSame(now fs.FileInfo) bool {
	return now.Size() == f.info.Size() && now.ModTime().Equal(f.info.ModTime()) && f.opened.Sub(now.ModTime()) >= settled
}

func (f *file) Stat() (fs.FileInfo, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.ended {
		return nil, &fs.PathError{Op: "stat", Path: f.name, Err: fs.ErrClosed}
	}
	return f.info, nil
}

// ReadAt reads on the connection on which the file was opened or, if that is lost, on a later one.
func (f *file) ReadAt(p []byte, off int64) (n int, err error) {
	defer store.BeginWait(f.caller)()
	for reopens := 0; ; {
		f.mu.RLock()
		now, s := f.file, f.span
		f.mu.RUnlock()
		got, err := f.readSome(now, p[n:], off+int64(n))
		n += got
		f.link.counts.read.Add(uint64(max(got, 0)))
		if err == nil || errors.Is(err, io.EOF) || errors.Is(err, fs.ErrClosed) && f.isEnded() {
			return n, err
		}
		away := isAway(err)
		noted := f.link.note(s.conn, err)
		if got > 0 {
			reopens = 0
		}
		if reopens++; !away || !f.link.reopens || reopens > maxReopens || f.caller.Err() != nil {
			return n, noted
		}
		f.link.renew(s.conn, err)
		if err := f.reopen(now); err != nil {
			return n, err
		}
	}
}

// readSome reads from the upstream's file. It closes the file if the read takes too long.
func (f *file) readSome(now store.File, p []byte, off int64) (int, error) {
	portions := readTime/leastTime + time.Duration(len(p)/leastBytes)
	late := time.AfterFunc(portions*f.link.least, func() {
		f.slow.Store(&now)
		_ = now.Close()
	})
	n, err := now.ReadAt(p, off)
	if !late.Stop() || err != nil && err != io.EOF && f.isSlow(now) { // this read or another read of the file took too long
		err = &fs.PathError{Op: "read", Path: f.name, Err: errTrickle}
	}
	return n, err
}

// isSlow reports whether the upstream's file `now` was closed because a read of it took too long.
func (f *file) isSlow(now store.File) bool {
	slow := f.slow.Load()
	return slow != nil && *slow == now
}

func (f *file) isEnded() bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.ended
}

// reopen opens the file again, unless another reader has done so.
func (f *file) reopen(was store.File) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.ended:
		return &fs.PathError{Op: "read", Path: f.name, Err: fs.ErrClosed}
	case f.file != was:
		return nil
	}
	old := f.span
	if err := f.open(); err != nil {
		return err
	}
	_ = was.Close() // an error does not matter, because the connection of this file is lost
	old.end()
	return nil
}

func (f *file) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return &fs.PathError{Op: "close", Path: f.name, Err: fs.ErrClosed}
	}
	f.ended = true
	defer f.span.end()
	if err := f.file.Close(); !f.isSlow(f.file) {
		return err
	}
	return nil
}

// A versioned is a file whose server reports the version of each file, such as an ETag.
type versioned struct{ *file }

// Version returns the version of the file that the server reports: see [store.Versioned].
func (v versioned) Version() string {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if own, ok := store.As[store.Versioned](v.file.file); ok {
		return own.Version()
	}
	return ""
}

// An upload passes its result on to the link, which records failures of the upstream.
type upload struct {
	store.Upload
	span   *span
	link   *link
	caller context.Context // the context that was passed to Create
}

// Unwrap returns the upload of the upstream's store, for [store.As].
func (u *upload) Unwrap() any { return u.Upload }

func (u *upload) WriteAt(p []byte, off int64) (int, error) {
	defer store.BeginWait(u.caller)()
	n, err := u.Upload.WriteAt(p, off)
	return n, u.noted(err)
}

func (u *upload) Truncate(size int64) error {
	defer store.BeginWait(u.caller)()
	return u.noted(u.Upload.Truncate(size))
}

func (u *upload) Commit() error {
	defer store.BeginWait(u.caller)()
	defer u.span.end()
	return u.noted(u.Upload.Commit())
}

func (u *upload) Close() error {
	defer store.BeginWait(u.caller)()
	defer u.span.end()
	return u.Upload.Close()
}

func (u *upload) noted(err error) error {
	if err == nil {
		return nil
	}
	if isAway(err) {
		u.link.renew(u.span.conn, err)
	}
	return u.link.note(u.span.conn, err)
}

// Location is empty, because the file is not on a disk of this machine.
func (*upload) Location() store.Location { return store.Location{} }

// A handle is an open file of the upstream for reading and writing. Close ends the span of the call
// that opened it.
type handle struct {
	store.Handle
	span *span
	link *link
}

func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	n, err := h.Handle.ReadAt(p, off)
	return n, h.noted(err)
}

func (h *handle) WriteAt(p []byte, off int64) (int, error) {
	n, err := h.Handle.WriteAt(p, off)
	return n, h.noted(err)
}

func (h *handle) Close() error {
	defer h.span.end()
	return h.noted(h.Handle.Close())
}

func (h *handle) noted(err error) error {
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, fs.ErrClosed) {
		return err
	}
	return h.link.note(h.span.conn, err)
}
