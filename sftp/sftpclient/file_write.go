package sftpclient

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/haul-project/haul/sftp/internal/mux"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// Write writes p at the current offset. It does not wait for the server: see [File].
func (f *File) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.write(p, f.pos)
	f.pos += int64(n)
	return n, err
}

// WriteAt writes p at off, like Write. If the file was opened with O_APPEND, it writes at the end
// of the file.
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

// write writes p at off, and waits for the server only if Config.NoWriteBehind is set. The caller
// holds mu.
func (f *File) write(p []byte, off int64) (n int, err error) {
	if err := f.mayWrite("write", off, len(p)); err != nil {
		return 0, err
	}
	if f.broken != nil || len(p) == 0 {
		return 0, f.broken
	}
	f.dropAhead()
	f.wrote = true
	if f.c.config.NoWriteBehind {
		n, err := f.fillFrom(f.life, at{bytes.NewReader(p), off}, off, int64(len(p)))
		return int(n), err
	}
	n, err = f.behind.Write(p, off)
	return n, f.writeError(err)
}

// An at is an io.ReaderAt whose content begins at off.
type at struct {
	r   io.ReaderAt
	off int64
}

func (a at) ReadAt(p []byte, off int64) (int, error) { return a.r.ReadAt(p, off-a.off) }

// ReadFrom writes the content of r up to its end, like Write, without copying it twice. It returns
// an error of r as a [*TransferError].
func (f *File) ReadFrom(r io.Reader) (n int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.mayWrite("write", f.pos, 0); err != nil {
		return 0, err
	}
	if f.broken != nil {
		return 0, f.broken
	}
	f.dropAhead()
	f.wrote = true
	if f.c.config.NoWriteBehind {
		return f.readFromDirect(r)
	}
	n, err = f.behind.WriteFrom(r, f.pos)
	f.pos += n
	return n, f.behindError(err)
}

// behindError converts the error of a method of f.behind for callers of the File. The error comes
// from writing to the file, or from the reader whose data was written. The caller holds mu.
func (f *File) behindError(err error) error {
	if f.behind.Err() != nil {
		return f.writeError(err)
	}
	return f.asTransferError("write", err)
}

// readFromDirect is like ReadFrom without writing behind.
func (f *File) readFromDirect(r io.Reader) (n int64, err error) {
	b := mux.NewBuffer(f.c.server.WriteChunk)
	defer b.Free()
	for {
		got, rerr := io.ReadFull(r, b.Bytes[:f.c.server.WriteChunk])
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

// FillFrom copies `size` bytes of r, from offset off on, to the same offsets of the file, with many
// requests in flight. It returns how many bytes after off the server has confirmed without a gap. A
// size of -1 means up to the end of r. It reads r from one goroutine. If r is too short, the error
// is io.ErrUnexpectedEOF.
//
// An error is a [*TransferError]. Its Local is set if r has failed or a context has ended. After an
// error the file is truncated to the bytes that the server has confirmed, but not to less than its
// size when it was opened. If that fails too, the error says so.
func (f *File) FillFrom(ctx context.Context, r io.ReaderAt, off, size int64) (int64, error) {
	if size < -1 {
		return 0, f.fail("write", errSize)
	}
	if err := f.mayWrite("write", off, 0); err != nil {
		return 0, err
	}
	if size > wire.MaxFile-off {
		return 0, f.fail("write", errSize)
	}
	f.mu.Lock()
	err := f.awaitBehind(ctx)
	f.dropAhead()
	f.wrote = true
	f.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return f.fillFrom(ctx, r, off, size)
}

// fillFrom is like FillFrom for a file without pending writes.
func (f *File) fillFrom(ctx context.Context, r io.ReaderAt, off, size int64) (int64, error) {
	var progress func(whole int64)
	if f.confirmed != nil {
		progress = func(whole int64) { f.confirmed(off, whole) }
	}
	moved, err := f.remote.Fill(ctx, r, off, size, min(f.c.recordEvery, recordLeast), progress)
	if err == nil {
		return moved, nil
	}
	err = f.transferError("write", err)
	err = f.c.disk.explain(ctx, f.remote.Path, err) // before the truncation frees space
	if f.uncut {
		return moved, err
	}
	if e := f.remote.Cut(ctx, off+moved); e != nil {
		err = errors.Join(err, f.fail("cut", e))
	}
	return moved, err
}

var errSize = errors.New("no size that a file can have")
