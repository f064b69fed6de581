package mux

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// A File is a file on the server, open in one session or in several.
type File struct {
	handleSet
	mux     *Mux
	Content []byte // the whole file, if it arrived with the handshake

	life context.Context // ends with the file, or with the context it was opened with
	end  context.CancelCauseFunc

	old int64 // under mu: the size of the file before it was opened; MaxInt64 if unknown
}

// NewFile returns a file that is not open yet.
func (m *Mux) NewFile(name string, flags wire.OpenFlags) *File {
	return &File{mux: m, old: math.MaxInt64, handleSet: handleSet{
		calls: &m.calls, name: name, Path: name,
		access: flags & (wire.OpenRead | wire.OpenWrite), single: flags&wire.OpenAppend != 0,
	}}
}

// Live starts the life of a file that has been opened, and returns its context. The life ends with
// ctx, or with cause fs.ErrClosed when End is called. old is the size of the file before it was
// opened, or MaxInt64 if unknown.
func (f *File) Live(ctx context.Context, old int64) context.Context {
	f.life, f.end = context.WithCancelCause(ctx)
	f.old = old
	return f.life
}

// End aborts all operations on the file. The file stays open on the server until Close.
func (f *File) End() { f.end(fs.ErrClosed) }

// sizeFrom returns how many bytes the file had after offset off when it was opened, or -1 if that
// is unknown.
func (f *File) sizeFrom(off int64) int64 {
	if f.access != wire.OpenRead || f.old == math.MaxInt64 {
		return -1
	}
	return max(0, f.old-off)
}

// SetAttrs changes attributes of the open file.
func (f *File) SetAttrs(ctx context.Context, a wire.Attrs) error {
	err := f.Ask(ctx, Call{Take: TakeOK, Again: true}, func(b []byte, id uint32, h string) []byte {
		return wire.AppendFsetstat(b, id, h, a)
	})
	f.mux.mu.Lock()
	defer f.mux.mu.Unlock()
	if err == nil && a.Has(wire.AttrSize) {
		f.Known.Size, f.sure, f.reach = a.Size, 0, a.Size
		f.old = min(f.old, a.Size)
	}
	if f.Known.Flags&a.Flags&^wire.AttrSize != 0 {
		f.Known.Flags &= wire.AttrSize // the other attributes may have changed
	}
	return err
}

// cutTime is how long the truncation request may take.
const cutTime = 5 * time.Second

// Cut truncates a file after a failed write. size is the length up to which the file is known to be
// complete. A file that was longer when it was opened keeps that length.
func (f *File) Cut(ctx context.Context, size int64) error {
	f.mux.mu.Lock()
	old, reach := f.old, f.reach
	f.mux.mu.Unlock()
	if f.single || old == math.MaxInt64 || reach <= max(size, old) {
		return nil // nothing was written after that offset, or the old size is unknown
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cutTime)
	defer cancel()
	var a wire.Attrs
	a.SetSize(max(size, old))
	return f.SetAttrs(ctx, a)
}

// First returns the oldest handle that is still valid.
func (f *File) First() (Handle, bool) {
	f.mux.mu.Lock()
	defer f.mux.mu.Unlock()
	for _, h := range f.handles {
		if h.Session.err == nil {
			return h, true
		}
	}
	return Handle{}, false
}

// Handle waits until the file is open in some session, and returns its handle there.
func (f *File) Handle(ctx context.Context) (Handle, error) {
	f.mux.mu.Lock()
	defer f.mux.mu.Unlock()
	return f.await(ctx)
}

// Ask sends a call about the open file. If its session is lost and k.Again is set, it repeats the
// call in another session.
func (f *File) Ask(ctx context.Context, k Call, build func(b []byte, id uint32, handle string) []byte) error {
	for tries := 1; ; tries++ {
		h, err := f.Handle(ctx)
		if err != nil {
			return err
		}
		next := k
		next.Session = h.Session
		next.Build = func(b []byte, id uint32) []byte { return build(b, id, h.Handle) }
		err = f.mux.Do(ctx, &next)
		if !errors.Is(err, ErrSessionLost) || !k.Again || !askAgain(err, tries) {
			return err
		}
	}
}

// Close closes the file in all sessions. If wait is set, it waits for the server's answers and
// returns the first error.
func (f *File) Close(ctx context.Context, wait bool) error {
	f.mux.mu.Lock()
	f.closed = true
	handles := slices.DeleteFunc(f.handles, func(h Handle) bool { return h == f.ending })
	f.handles = nil
	if f.err == nil {
		f.err = fs.ErrClosed
	}
	f.notifyWaiting()
	if !wait {
		for _, h := range handles {
			f.calls.closeHandle(h)
		}
		f.mux.mu.Unlock()
		return nil
	}
	f.mux.mu.Unlock()
	errs := make(chan error, len(handles))
	for _, h := range handles {
		go func() {
			errs <- f.mux.Do(ctx, &Call{Session: h.Session, Take: TakeOK, Build: func(b []byte, id uint32) []byte {
				return wire.AppendClose(b, id, h.Handle)
			}})
		}()
	}
	var first error
	for range handles {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// A Closing is an FSETSTAT followed by a CLOSE. They are sent after WRITEs without waiting for the
// answers to these.
type Closing struct {
	file     *File
	set, end *Call
}

// closeBehind sends an FSETSTAT and a CLOSE after the WRITEs to the file, all of which have been
// sent. It returns nil, and sends nothing, unless the file is open in exactly one session: only
// within a session are requests processed in order ([Server].InOrder).
func (f *File) closeBehind(a wire.Attrs) *Closing {
	if len(f.handles) != 1 || len(f.opening) > 0 || f.handles[0].Session.err != nil {
		return nil
	}
	h := f.handles[0]
	c := &Closing{file: f}
	c.set = &Call{Session: h.Session, Behind: true, Take: TakeOK, Build: func(b []byte, id uint32) []byte {
		return wire.AppendFsetstat(b, id, h.Handle, a)
	}}
	c.end = &Call{Session: h.Session, Behind: true, Take: TakeOK, Build: func(b []byte, id uint32) []byte {
		return wire.AppendClose(b, id, h.Handle)
	}}
	// Once the file is closed, the server may give the handle to another file.
	f.ending = h
	f.calls.start(c.set, c.end)
	return c
}

// Await waits for both answers and returns the first error. If it returns an ErrSessionLost, the
// server may have executed neither request.
func (c *Closing) Await(ctx context.Context) error {
	m := c.file.mux
	err := m.Await(ctx, c.set)
	if e := m.Await(ctx, c.end); err == nil || errors.Is(e, ErrSessionLost) {
		err = e
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.end.at == nil {
		c.file.ending = Handle{} // it was never sent
	}
	return err
}

// maxCopyData is how many bytes one copy-data request covers, so that callers see progress now and
// then.
const maxCopyData = 256 << 20

// Clone has the server copy the first size bytes of the file to another file, which is empty
// (copy-data). It calls copied with the number of bytes of each step. If the file has become
// shorter, Clone copies the bytes that exist.
func (f *File) Clone(ctx context.Context, to *File, size int64, copied func(n int64)) error {
	// A handle is valid in its session only, and the request contains two handles. So both files
	// must be open in the same session.
	b, err := to.Handle(ctx)
	if err != nil {
		return err
	}
	f.mux.mu.Lock()
	a, err := f.awaitIn(ctx, b.Session)
	f.mux.mu.Unlock()
	for n := int64(0); err == nil && n < size; {
		some := min(size-n, maxCopyData)
		err = f.mux.Do(ctx, &Call{Session: a.Session, Take: TakeOK, Slow: true, Build: func(p []byte, id uint32) []byte {
			return wire.AppendCopyData(p, id, a.Handle, n, some, b.Handle, n)
		}})
		if err == nil {
			n += some
			copied(some)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// fillConfig returns the plan for writing size bytes at off. A size of -1 means up to the end of
// the data.
func (f *File) fillConfig(off, size int64) pipeline.Config {
	p := pipeline.Config{Offset: off, Size: size}
	if f.single {
		p.Span = int64(f.mux.Server.WriteChunk) // one WRITE at a time
	}
	return p
}
