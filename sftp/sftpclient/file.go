package sftpclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"sync"
	"sync/atomic"

	"github.com/haul-project/haul/sftp/internal/mux"
	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// A File is an open file on a server. It is an io.Reader, io.Writer, io.ReaderAt, io.WriterAt,
// io.Seeker, io.WriterTo and io.ReaderFrom. Sequential reads and writes overlap with the program's
// own work.
//
// Read reads ahead: the more a program reads, the more bytes are requested. If another program
// changes the file, Read may return data as old as the last Read. Read always returns the bytes
// that the same File wrote before. ReadAt reads ahead too if it is called with consecutive offsets.
// Otherwise it requests only the bytes that it returns.
//
// Write and WriteAt return when they have copied the data. If the server refuses a write, the next
// call of Write, WriteAt, ReadFrom, FillFrom, Sync, Truncate or Close returns the error, and so
// does each later one. All data is written, and visible to others, once Sync or Close has returned
// nil. Overlapping writes take effect in the order of the calls.
//
// If writing fails, a file that was created, emptied or extended is truncated to the bytes that the
// server has confirmed without a gap, so that an incomplete file does not look complete.
//
// When the context with which the File was opened ends, all calls except Close fail. Any goroutine
// may call the methods. Read, Write, Seek, ReadFrom and WriteTo share one offset.
type File struct {
	c       *Client
	name    string
	remote  *mux.File
	access  int // os.O_RDONLY, os.O_WRONLY or os.O_RDWR
	append  bool
	made    bool        // this File created the file on the server
	small   []byte      // the whole file, if it arrived with the handshake
	known   wire.Attrs  // the file's attributes, if they arrived with the handshake
	changed atomic.Bool // SetAttr was called, so known may be out of date

	// life ends when the file is closed, or when the context with which it was opened ends.
	life context.Context

	// confirmed, if set, is called while FillFrom makes progress: the server has confirmed all
	// bytes from start to end. It must not block.
	confirmed func(start, end int64)

	// uncut is set if the file must not be truncated after a failed write: a record says which part
	// of it is complete, and the file may belong to another upload by then.
	uncut bool

	mu     sync.Mutex
	pos    int64           // offset of Read and Write; guarded by mu
	next   int64           // offset of the first byte after those of the last ReadAt; guarded by mu
	ahead  *mux.ReadAhead  // the data for Read; nil if nothing is read ahead; guarded by mu
	behind mux.WriteBehind // the data of Write that the server has not confirmed; guarded by mu
	wrote  bool            // a write was sent to the server; guarded by mu
	broken error           // the error of a failed write, as the caller sees it; guarded by mu
	closed bool            // guarded by mu
}

var (
	_ store.File    = (*File)(nil)
	_ store.Handle  = (*File)(nil)
	_ io.ReadSeeker = (*File)(nil)
	_ io.ReaderFrom = (*File)(nil)
	_ io.WriterTo   = (*File)(nil)
	_ io.Writer     = (*File)(nil)
)

// Open opens a file for reading. The file can be used until ctx ends.
func (c *Client) Open(ctx context.Context, name string) (*File, error) {
	return c.OpenFile(ctx, name, os.O_RDONLY, 0)
}

// Create creates a file for reading and writing, or empties an existing file. The file can be used
// until ctx ends.
func (c *Client) Create(ctx context.Context, name string) (*File, error) {
	return c.OpenFile(ctx, name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// OpenFile opens a file with the flags of package os. O_SYNC has no effect; use [File.Sync]. perm
// holds the permission bits of a new file; the server may clear some. For a directory the error is
// [store.ErrNotRegular]. The file can be used until ctx ends.
func (c *Client) OpenFile(ctx context.Context, name string, flag int, perm fs.FileMode) (*File, error) {
	f, err := c.openFile(ctx, name, flag, perm, mux.OpenOptions{})
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return f, nil
}

// openFlags converts the flags of os.OpenFile to those of OPEN.
func openFlags(flag int) (wire.OpenFlags, error) {
	var w wire.OpenFlags
	switch flag & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR) {
	case os.O_RDONLY:
		w = wire.OpenRead
	case os.O_WRONLY:
		w = wire.OpenWrite
	case os.O_RDWR:
		w = wire.OpenRead | wire.OpenWrite
	}
	for _, f := range [...]struct {
		flag int
		wire wire.OpenFlags
	}{{os.O_APPEND, wire.OpenAppend}, {os.O_CREATE, wire.OpenCreate}, {os.O_TRUNC, wire.OpenTruncate}, {os.O_EXCL, wire.OpenExclusive}} {
		if flag&f.flag != 0 {
			w |= f.wire
		}
	}
	if w&wire.OpenCreate == 0 {
		w &^= wire.OpenExclusive // as in open(2), it has no effect without OpenCreate
	}
	if w.Check() != nil {
		return 0, fs.ErrInvalid
	}
	return w, nil
}

func (c *Client) openFile(ctx context.Context, name string, flag int, perm fs.FileMode, how mux.OpenOptions) (*File, error) {
	flags, err := openFlags(flag)
	if err == nil {
		err = checkPath(name)
	}
	if err != nil {
		return nil, err
	}
	var attrs wire.Attrs
	if flags&wire.OpenCreate != 0 {
		attrs.SetMode(wire.Mode(perm.Perm()))
	}
	r := c.mux.NewFile(name, flags)
	// `was` is the error of the request for the attributes that the file had before it was opened.
	was, err := r.Open(ctx, flags, attrs, how)
	existed := how.Also == nil && was == nil
	switch {
	case err == nil && ctx.Err() != nil && !how.Patient:
		_ = r.Close(ctx, false)
		return nil, context.Cause(ctx)
	case err == nil && existed && r.Known.Mode.IsDir():
		_ = r.Close(ctx, false)
		return nil, fmt.Errorf("%w but a directory", store.ErrNotRegular)
	case isFailure(err) && existed && r.Known.Mode.IsDir() && flags&wire.OpenExclusive == 0:
		return nil, fmt.Errorf("%w but a directory: %w", store.ErrNotRegular, err)
	case isFailure(err) && existed && flags&wire.OpenExclusive != 0:
		return nil, exists(err)
	case err != nil:
		return nil, err
	}
	f := &File{c: c, name: name, remote: r, append: flags&wire.OpenAppend != 0, small: r.Content, known: r.Known, next: -1}
	f.access = flag & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
	f.made = flags&wire.OpenExclusive != 0 || errors.Is(was, fs.ErrNotExist) && flags&wire.OpenCreate != 0
	old := int64(math.MaxInt64)
	switch {
	case f.made, flags&wire.OpenTruncate != 0:
		old = 0
		r.Known = wire.Attrs{}
	case existed && r.Known.Has(wire.AttrSize):
		old = r.Known.Size
	}
	f.life = r.Live(ctx, old)
	f.behind.Begin(r)
	return f, nil
}

// Name returns the name that the file was opened by.
func (f *File) Name() string { return f.name }

// Stat describes the file as it is on the server now. If the whole file arrived with the handshake,
// Stat describes it as it was then: see [Config].First.
func (f *File) Stat() (fs.FileInfo, error) {
	if f.small != nil && !f.changed.Load() && f.life.Err() == nil {
		return storewire.InfoOf(path.Base(f.name), f.known), nil
	}
	if err := f.awaitWrites(f.life); err != nil {
		return nil, err
	}
	fi, err := f.describe()
	if err != nil {
		return nil, f.fail("stat", err)
	}
	return fi, nil
}

// describe requests the attributes of the file from the server.
func (f *File) describe() (fs.FileInfo, error) {
	var a wire.Attrs
	err := f.remote.Ask(f.life, mux.Call{Take: mux.TakeAttrs(&a), Again: true}, wire.AppendFstat)
	return storewire.InfoOf(path.Base(f.name), a), err
}

// Seek sets the offset of the next Read or Write. For a whence of io.SeekEnd it asks the server for
// the size.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := context.Cause(f.life); err != nil {
		return 0, f.fail("seek", err)
	}
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.pos
	case io.SeekEnd:
		f.mu.Unlock()
		fi, err := f.Stat()
		f.mu.Lock()
		if err != nil {
			return 0, err
		}
		offset += fi.Size()
	default:
		return 0, f.fail("seek", fs.ErrInvalid)
	}
	if offset < 0 {
		return 0, f.fail("seek", fs.ErrInvalid)
	}
	f.pos = offset
	return offset, nil
}

// Truncate sets the size in bytes: it cuts the file, or adds zeros.
func (f *File) Truncate(size int64) error {
	return f.SetAttr(store.Attr{Size: &size})
}

// SetAttr sets the attributes in a. The size requires a file that is open for writing; the others
// require only the server's permission. Setting only one of the two owners, or of the two times,
// costs an extra request for the other.
func (f *File) SetAttr(a store.Attr) error {
	switch {
	case a.Size != nil && (*a.Size < 0 || *a.Size > wire.MaxFile):
		return f.fail("setattr", fs.ErrInvalid)
	case a.Size != nil && f.access == os.O_RDONLY:
		return f.fail("setattr", errNotWriting)
	case f.life.Err() != nil:
		return f.fail("setattr", context.Cause(f.life))
	}
	f.changed.Store(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.awaitBehind(f.life); err != nil {
		return err
	}
	f.dropAhead()
	var now fs.FileInfo
	if storewire.NeedsCurrent(a) {
		var err error
		if now, err = f.describe(); err != nil {
			return f.fail("setattr", err)
		}
	}
	if err := f.remote.SetAttrs(f.life, storewire.ChangesOf(a, now)); err != nil {
		return f.fail("setattr", err)
	}
	return nil
}

// Sync waits until the server has written all data to its disk (fsync@openssh.com). If the server
// does not offer that, the error is errors.ErrUnsupported, and the server has all data.
func (f *File) Sync() error {
	if err := f.awaitWrites(f.life); err != nil {
		return err
	}
	if !f.c.server.Ext.Has(wire.ExtFsync) {
		return f.fail("sync", errors.ErrUnsupported)
	}
	if err := f.remote.Ask(f.life, mux.Call{Take: mux.TakeOK, Again: true, Slow: true}, wire.AppendFsync); err != nil {
		return f.fail("sync", err)
	}
	return nil
}

// Close closes the file. If the file was written, Close waits until the server has confirmed all
// data, and returns the first error since the file was opened. A second Close returns fs.ErrClosed.
func (f *File) Close() error { return f.close(true) }

func (f *File) close(flush bool) error {
	var err error
	if flush && f.behind.Dirty() {
		f.mu.Lock()
		err = f.awaitBehind(f.life)
		f.mu.Unlock()
	}
	f.remote.End() // this makes readers and writers release mu
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return f.fail("close", fs.ErrClosed)
	}
	f.closed = true
	// Close the file even if its context has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.life), f.c.config.Timeout)
	defer cancel()
	f.dropAhead()
	cut := f.behind.Finish(ctx, flush && !f.uncut)
	if err == nil {
		err = cmp.Or(f.broken, f.transferError("write", f.behind.Err()))
	}
	if cut != nil {
		err = errors.Join(err, f.fail("cut", cut))
	}
	if e := f.remote.Close(ctx, f.wrote); err == nil && e != nil {
		err = f.fail("close", e)
	}
	return err
}

// dropAhead drops the data that was read ahead. The caller holds mu.
func (f *File) dropAhead() {
	if f.ahead != nil {
		f.ahead.Drop()
		f.ahead = nil
	}
}

// awaitWrites waits until the server has confirmed all written data, and returns the first error.
func (f *File) awaitWrites(ctx context.Context) error {
	if !f.behind.Dirty() {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.awaitBehind(ctx)
}

// awaitBehind is like awaitWrites for callers that hold mu.
func (f *File) awaitBehind(ctx context.Context) error {
	if f.broken != nil {
		return f.broken
	}
	return f.writeError(f.behind.Await(ctx))
}

// writeError records err as the file's write error, unless an earlier one is recorded. It returns
// the recorded error, converted for the callers of the File. The caller holds mu.
func (f *File) writeError(err error) error {
	if err != nil && f.broken == nil {
		f.broken = f.c.disk.explain(f.life, f.remote.Path, f.transferError("write", err))
	}
	return f.broken
}

// noteWrite records that a write was sent to the server.
func (f *File) noteWrite() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrote = true
}

func (f *File) fail(op string, err error) error { return pathError(op, f.name, err) }

// transferError converts a *mux.Failure into a *TransferError, or into fs.ErrClosed if the file was
// closed.
func (f *File) transferError(op string, err error) error {
	if errors.Is(err, fs.ErrClosed) {
		return f.fail(op, fs.ErrClosed)
	}
	return f.asTransferError(op, err)
}

// asTransferError converts a *mux.Failure into a *TransferError, and returns other errors
// unchanged.
func (f *File) asTransferError(op string, err error) error {
	if x, ok := errors.AsType[*mux.Failure](err); ok {
		return &TransferError{Op: op, Name: f.name, Offset: x.Offset, Local: x.Local, Err: x.Err}
	}
	return err
}

var (
	errNotReading = fmt.Errorf("%w: not open for reading", fs.ErrPermission)
	errNotWriting = fmt.Errorf("%w: not open for writing", fs.ErrPermission)
)

// mayRead returns an error if the file cannot be read at off.
func (f *File) mayRead(off int64) error {
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

// mayWrite returns an error if n bytes cannot be written at off.
func (f *File) mayWrite(op string, off int64, n int) error {
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
