package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"

	"github.com/haul-project/haul/sftp/internal/mux"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// An openedFile is what all ways to read and to write a [File] share.
type openedFile struct {
	c      *Client
	name   string
	remote *mux.File
	access int // os.O_RDONLY, os.O_WRONLY or os.O_RDWR
	append bool
	old    int64  // bytes the file had before it was opened; all of MaxInt64 if it is not known
	made   bool   // it was not there before
	small  []byte // all of it, if that came with the handshake

	life context.Context // ends with the file, or with the context it was opened with
	end  context.CancelCauseFunc

	// confirmed, if set, is called with how far FillFrom has come: the server has all
	// from start to end. It must not wait.
	confirmed func(start, end int64)

	// uncut is set if the file is not cut when writing fails: a record says what of it
	// is whole, and it may be another upload's by then.
	uncut bool
}

func (f *openedFile) fail(op string, err error) error {
	return pathError(op, f.name, err)
}

// alive returns an error if the file has been closed, or its context has ended.
func (f *openedFile) alive() error {
	if f.life.Err() != nil {
		return context.Cause(f.life)
	}
	return nil
}

var (
	errNotReading = fmt.Errorf("%w: not open for reading", fs.ErrPermission)
	errNotWriting = fmt.Errorf("%w: not open for writing", fs.ErrPermission)
)

func (f *openedFile) forReading(op string, off int64) error {
	switch {
	case f.life.Err() != nil:
		return f.fail(op, f.alive())
	case f.access == os.O_WRONLY:
		return f.fail(op, errNotReading)
	case off < 0:
		return f.fail(op, fs.ErrInvalid)
	}
	return nil
}

func (f *openedFile) forWriting(op string, off int64, n int) error {
	switch {
	case f.life.Err() != nil:
		return f.fail(op, f.alive())
	case f.access == os.O_RDONLY:
		return f.fail(op, errNotWriting)
	case off < 0 || off > maxFile-int64(n):
		return f.fail(op, fs.ErrInvalid)
	}
	return nil
}

// sizeFrom returns how many bytes the file had from off on when it was opened,
// or -1 if that is not known.
func (f *openedFile) sizeFrom(off int64) int64 {
	if f.access != os.O_RDONLY || f.old == math.MaxInt64 {
		return -1
	}
	return max(0, f.old-off)
}

// setstat changes attributes.
func (f *openedFile) setstat(ctx context.Context, a wire.Attrs) error {
	err := f.remote.SetAttrs(ctx, a)
	if err == nil && a.Has(wire.AttrSize) {
		f.c.mux.Lock()
		f.old = min(f.old, a.Size)
		f.c.mux.Unlock()
	}
	return err
}

// failed is the error for a transfer that failed, unless it was closed.
func (f *openedFile) failed(op string, off int64, err error, local bool) error {
	if errors.Is(err, fs.ErrClosed) {
		return f.fail(op, fs.ErrClosed)
	}
	return &TransferError{Op: op, Name: f.name, Offset: off, Local: local, Err: err}
}

// contextError returns the error of the first context that has ended, or nil. Where there is
// always something to do, as on a disk slower than the network, wait is never called, and
// does not report it.
func contextError(ctx, life context.Context) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case life.Err() != nil:
		return context.Cause(life)
	}
	return nil
}
