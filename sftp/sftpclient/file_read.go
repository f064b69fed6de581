package sftpclient

import (
	"context"
	"io"

	"github.com/haul-project/haul/sftp/internal/mux"
)

// readAhead reads bytes at off into p, and expects that the reader continues after them. The caller
// holds mu.
func (f *File) readAhead(p []byte, off int64) (n int, err error) {
	b, err := f.nextAt(off, int64(max(len(p), f.c.server.ReadChunk)))
	if err != nil {
		return 0, err
	}
	n = copy(p, b)
	f.ahead.Took(n)
	return n, nil
}

// nextAt returns bytes at off that were read ahead. If nothing is read ahead at off, it starts to
// read ahead at off and requests the next `ahead` bytes. The caller holds mu.
func (f *File) nextAt(off, ahead int64) ([]byte, error) {
	if f.ahead == nil || f.ahead.Pos() != off {
		f.dropAhead()
		f.ahead = f.remote.ReadAhead(off, ahead)
	}
	b, err := f.ahead.Next()
	if err != nil {
		f.dropAhead() // the next call starts again
		return nil, f.transferError("read", err)
	}
	return b, nil
}

// readDirect fills p with the bytes of the file at off. It sends as many requests at once as it
// needs.
func (f *File) readDirect(p []byte, off int64) (int, error) {
	n, err := f.remote.ReadInto(p, off)
	switch {
	case err != nil:
		return n, f.transferError("read", err)
	case n < len(p):
		return n, io.EOF
	}
	return n, nil
}

// Read reads the next bytes, and reads ahead: see [File].
func (f *File) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.mayRead(f.pos); err != nil {
		return 0, err
	}
	if err := f.awaitBehind(f.life); err != nil {
		return 0, err
	}
	if n := copy(p, from(f.small, f.pos)); n > 0 {
		f.pos += int64(n)
		return n, nil
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

// ReadAt fills p with the bytes at off. It fills a large p with many requests at once. [File]
// describes when it reads ahead.
func (f *File) ReadAt(p []byte, off int64) (n int, err error) {
	if err := f.mayRead(off); err != nil {
		return 0, err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if f.small != nil {
		if n = copy(p, from(f.small, off)); n < len(p) {
			err = io.EOF
		}
		return n, err
	}
	if f.behind.Dirty() {
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

// inOrder reports whether a ReadAt is one of several with consecutive offsets. If so, it has locked
// mu.
func (f *File) inOrder(off int64, n int) bool {
	if f.c.config.NoReadAhead || !f.mu.TryLock() {
		return false
	}
	follows := off == f.next && n <= f.c.config.Memory/4 || f.ahead != nil && f.ahead.Pos() == off
	f.next = off + int64(n)
	if !follows {
		f.mu.Unlock()
	}
	return follows
}

// from returns the bytes of content from an offset on. It returns no bytes if the offset is beyond
// the end of content.
func from(content []byte, off int64) []byte { return content[min(off, int64(len(content))):] }

// WriteTo writes the rest of the file to w, with as many requests in flight as the path holds. It
// returns the same kinds of errors as FetchTo.
func (f *File) WriteTo(w io.Writer) (n int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.mayRead(f.pos); err != nil {
		return 0, err
	}
	if err := f.awaitBehind(f.life); err != nil {
		return 0, err
	}
	switch {
	case f.small != nil:
		some, err := f.writeNext(w, from(f.small, f.pos))
		return int64(some), err
	case f.c.config.NoReadAhead:
		return f.writeToDirect(w)
	}
	memory := int64(f.c.config.Memory)
	if f.ahead != nil {
		f.ahead.Ahead(memory)
	}
	for {
		b, err := f.nextAt(f.pos, memory)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		some, err := f.writeNext(w, b)
		f.ahead.Took(some)
		if n += int64(some); err != nil {
			return n, err
		}
	}
}

// writeNext writes b, the bytes of the file at pos, to w. It advances pos by the number of bytes
// that w has taken. The caller holds mu.
func (f *File) writeNext(w io.Writer, b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	n = min(max(n, 0), len(b))
	if f.pos += int64(n); err != nil {
		err = &TransferError{Op: "read", Name: f.name, Offset: f.pos, Local: true, Err: err}
	}
	return n, err
}

// writeToDirect is like WriteTo without reading ahead.
func (f *File) writeToDirect(w io.Writer) (n int64, err error) {
	b := mux.NewBuffer(f.c.server.ReadChunk)
	defer b.Free()
	for {
		got, err := f.readDirect(b.Bytes[:f.c.server.ReadChunk], f.pos)
		some, werr := f.writeNext(w, b.Bytes[:got])
		n += int64(some)
		switch {
		case werr != nil:
			return n, werr
		case err == io.EOF:
			return n, nil
		case err != nil:
			return n, err
		}
	}
}

// FetchTo writes the file from offset off up to its end to w, with many requests in flight. It
// returns how many bytes after off it has written without a gap. It writes each byte at its offset
// in the file, in any order, from one goroutine.
//
// An error is a [*TransferError]. Its Local is set if w has failed or a context has ended. After an
// error w may contain bytes after the first gap too: truncate it there.
func (f *File) FetchTo(ctx context.Context, w io.WriterAt, off int64) (int64, error) {
	if err := f.mayRead(off); err != nil {
		return 0, err
	}
	if f.small != nil {
		b := from(f.small, off)
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
	if err := f.awaitWrites(ctx); err != nil {
		return 0, err
	}
	moved, err := f.remote.Fetch(ctx, w, off)
	return moved, f.asTransferError("read", err)
}
