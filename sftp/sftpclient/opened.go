package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
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

var (
	errNotReading = fmt.Errorf("%w: not open for reading", fs.ErrPermission)
	errNotWriting = fmt.Errorf("%w: not open for writing", fs.ErrPermission)
)

func (f *openedFile) forReading(off int64) error {
	switch {
	case f.life.Err() != nil:
		return f.fail("read", context.Cause(f.life))
	case f.access == os.O_WRONLY:
		return f.fail("read", errNotReading)
	case off < 0:
		return f.fail("read", fs.ErrInvalid)
	}
	return nil
}

func (f *openedFile) forWriting(op string, off int64, n int) error {
	switch {
	case f.life.Err() != nil:
		return f.fail(op, context.Cause(f.life))
	case f.access == os.O_RDONLY:
		return f.fail(op, errNotWriting)
	case off < 0 || off > wire.MaxFile-int64(n):
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

// fetchSmall is FetchTo for a file of which all is here.
func (f *openedFile) fetchSmall(w io.WriterAt, off int64) (int64, error) {
	b := f.small[min(off, int64(len(f.small))):]
	if len(b) == 0 {
		return 0, nil
	}
	n, err := w.WriteAt(b, off)
	if err != nil {
		moved := int64(min(max(n, 0), len(b)))
		return moved, &TransferError{Op: "read", Name: f.name, Offset: off + moved, Local: true, Err: err}
	}
	return int64(len(b)), nil
}

// readSmall is ReadAt for such a file.
func (f *openedFile) readSmall(p []byte, off int64) (int, error) {
	n := copy(p, f.small[min(off, int64(len(f.small))):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// readDirect reads into p what the file has at off, in as many requests at once as it
// takes.
func (f *openedFile) readDirect(p []byte, off int64) (int, error) {
	n, local, err := f.remote.ReadInto(f.life, p, off)
	switch {
	case err != nil:
		return n, f.failed("read", off+int64(n), err, local)
	case n < len(p):
		return n, io.EOF
	}
	return n, nil
}

// fetch is FetchTo for a file that has been looked at.
func (f *openedFile) fetch(ctx context.Context, w io.WriterAt, off int64) (int64, error) {
	moved, local, err := f.remote.Fetch(ctx, f.life, w, off, f.sizeFrom(off))
	if err != nil {
		err = &TransferError{Op: "read", Name: f.name, Offset: off + moved, Local: local, Err: err}
	}
	return moved, err
}

func (f *openedFile) fillConfig(off, size int64) pipeline.Config {
	p := pipeline.Config{Offset: off, Size: size}
	if f.append {
		p.Span = int64(f.c.server.WriteChunk) // one after the other
	}
	return p
}

// fillFrom is FillFrom for a file of which nothing is written behind.
func (f *openedFile) fillFrom(ctx context.Context, r io.ReaderAt, off, size int64) (int64, error) {
	var progress func(whole int64)
	if f.confirmed != nil {
		progress = func(whole int64) { f.confirmed(off, whole) }
	}
	moved, local, err := f.remote.Fill(ctx, f.life, r, f.fillConfig(off, size), min(f.c.recordEvery, recordLeast), progress)
	if err == nil {
		return moved, nil
	}
	err = f.failed("write", off+moved, err, local)
	err = f.c.explain(ctx, f.remote.Path, err) // before there is room again
	if e := f.cut(ctx, off+moved); e != nil {
		err = errors.Join(err, e)
	}
	return moved, err
}

// cutTime is how long the request may take that cuts a file.
const cutTime = 5 * time.Second

// cut cuts a file, whose writing has failed, behind what is known to be whole.
func (f *openedFile) cut(ctx context.Context, size int64) error {
	if f.uncut {
		return nil
	}
	f.c.mux.Lock()
	old := f.old
	f.c.mux.Unlock()
	if f.append || old == math.MaxInt64 || f.remote.End() <= max(size, old) {
		return nil // nothing can lie behind it, or it is not known what did
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cutTime)
	defer cancel()
	var a wire.Attrs
	a.SetSize(max(size, old))
	if err := f.setstat(ctx, a); err != nil {
		return f.fail("cut", err)
	}
	return nil
}
