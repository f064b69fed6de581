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
	Content []byte // the whole content, if it arrived together with the handshake

	life context.Context // ends when End is called, or with the context that was passed to Live
	end  context.CancelCauseFunc

	old int64 // the size that the file had before it was opened; MaxInt64 if unknown; guarded by mu
}

// NewFile returns a file that is not open yet.
func (m *Mux) NewFile(name string, flags wire.OpenFlags) *File {
	return &File{mux: m, old: math.MaxInt64, handleSet: handleSet{
		calls: &m.calls, name: name, Path: name,
		access: flags & (wire.OpenRead | wire.OpenWrite), single: flags&wire.OpenAppend != 0,
	}}
}

// Live returns a context for a file that has been opened. The context ends with ctx, or with the
// cause fs.ErrClosed when End is called. The argument old is the size of the file before it was
// opened, or MaxInt64 if unknown.
func (f *File) Live(ctx context.Context, old int64) context.Context {
	f.life, f.end = context.WithCancelCause(ctx)
	f.old = old
	return f.life
}

// End aborts all operations on the file. The file stays open on the server until Close.
func (f *File) End() { f.end(fs.ErrClosed) }

// sizeFrom returns how many bytes the file had after the offset off when it was opened. It returns
// -1 if that number is unknown.
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
		f.Known.Flags &= wire.AttrSize // the request may have changed other attributes, but not the size
	}
	return err
}

// cutTime is the time limit of the request that truncates a file.
const cutTime = 5 * time.Second

// Cut truncates a file after a failed write. The file is known to be complete up to the length
// `size`. Cut never makes a file shorter than it was before it was opened.
func (f *File) Cut(ctx context.Context, size int64) error {
	f.mux.mu.Lock()
	old, reach := f.old, f.reach
	f.mux.mu.Unlock()
	if f.single || old == math.MaxInt64 || reach <= max(size, old) {
		return nil // no byte was written after the offsets `size` and `old`, or the old size is unknown
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cutTime)
	defer cancel()
	var a wire.Attrs
	a.SetSize(max(size, old))
	return f.SetAttrs(ctx, a)
}

// First returns the oldest handle of the file that is still valid, if there is one.
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

// Ask sends a call that refers to the open file. If the session is lost and k.Again is set, Ask
// repeats the call in another session.
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

// Close closes the file in all sessions. If wait is set, Close waits for the server's answers and
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

// A Closing is an FSETSTAT followed by a CLOSE, which are sent right after WRITEs, without waiting
// for the answers to the WRITEs.
type Closing struct {
	file     *File
	set, end *Call
}

// closeBehind sends an FSETSTAT and a CLOSE for the file, after its WRITEs, which are all queued or
// sent. It sends nothing and returns nil unless the file is open in exactly one session, because
// the order of requests is guaranteed only within a session ([Server].InOrder).
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
	// The server may reuse the handle for another file once this file is closed.
	f.ending = h
	f.calls.start(c.set, c.end)
	return c
}

// Await waits for the answers to the FSETSTAT and the CLOSE, and returns the first error. After an
// ErrSessionLost it is unknown whether the server has executed the two requests.
func (c *Closing) Await(ctx context.Context) error {
	m := c.file.mux
	err := m.Await(ctx, c.set)
	if e := m.Await(ctx, c.end); err == nil || errors.Is(e, ErrSessionLost) {
		err = e
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.end.at == nil {
		c.file.ending = Handle{} // the CLOSE was never sent, so the handle is still valid
	}
	return err
}

// maxCopyData is how many bytes one copy-data request covers. It is bounded so that callers can
// show progress.
const maxCopyData = 256 << 20

// Clone has the server copy the first `size` bytes of the file f to the empty file `to`, by
// copy-data requests. After each request it calls the function `copied` with the number of bytes
// that the request has copied. If f has become shorter, Clone copies the bytes that exist.
func (f *File) Clone(ctx context.Context, to *File, size int64, copied func(n int64)) error {
	// A handle is valid only in its session, and the request contains the handles of both files. So
	// both must be open in the same session.
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

// fillConfig returns the configuration of a plan for writing `size` bytes at off. A size of -1
// means that the end of the data is not known yet.
func (f *File) fillConfig(off, size int64) pipeline.Config {
	p := pipeline.Config{Offset: off, Size: size}
	if f.single {
		p.Span = int64(f.mux.Server.WriteChunk) // one WRITE at a time
	}
	return p
}
