package sftpclient

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// drainTime is how long a write that was interrupted waits for the answers to
// what is on its way: the file can only be cut when nothing comes after that.
const drainTime = 5 * time.Second

// A fill is a range of a file on its way from a reader. The goroutine that
// wants it reads, right into the packets.
type fill struct {
	t    *transfer
	todo []grant // mux.mu: to be read and sent
}

func (x *fill) place(pipeline.Request) []byte                   { return nil }
func (x *fill) received(time.Time, uint32, int64, *buffer, int) {}
func (x *fill) changed() {
	if x.t.over() {
		x.t.notify()
	}
}

func (x *fill) granted(g grant) {
	x.todo = append(x.todo, g)
	x.t.notify()
}

// FillFrom writes size bytes of r, from off on, to the same offsets of the file,
// with many requests on their way at once, and returns how many bytes from off
// on the server has confirmed without a gap. With size -1 it goes on until r
// ends. r is read by one goroutine; where it ends too early, the error is
// io.ErrUnexpectedEOF.
//
// What fails is a [*TransferError], whose Local is set if it is r, or a context.
// Then the file is cut behind what the server has confirmed, but not to less
// than it had when it was opened; what else goes wrong with that is in the error
// too.
func (f *File) FillFrom(ctx context.Context, r io.ReaderAt, off, size int64) (int64, error) {
	if size < -1 {
		return 0, f.fail("write", errSize)
	}
	if err := f.forWriting("write", off, 0); err != nil {
		return 0, err
	}
	if size > maxFile-off {
		return 0, f.fail("write", errSize)
	}
	f.mu.Lock()
	err := f.awaitWritesLocked(ctx)
	f.dropAhead()
	f.behind.wrote = true
	f.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return f.fillFrom(ctx, r, off, size)
}

var errSize = errors.New("no size that a file can have")

func (f *File) fillConfig(off, size int64) pipeline.Config {
	p := pipeline.Config{Offset: off, Size: size}
	if f.append {
		p.Span = int64(f.c.server.chunk[1]) // one after the other
	}
	return p
}

func (f *File) fillFrom(ctx context.Context, r io.ReaderAt, off, size int64) (int64, error) {
	c := f.c
	x := &fill{}
	t := &transfer{file: f.remote, endpoint: x, write: true}
	x.t = t
	c.mux.mu.Lock()
	defer c.mux.mu.Unlock()
	c.mux.begin(t, f.fillConfig(off, size))
	t.ask(time.Now())
	t.spread()
	c.mux.serve(time.Now())
	told := off
	for !t.over() {
		if err := contextError(ctx, f.life); err != nil {
			t.halt(err)
			break
		}
		if whole := t.plan.Contiguous(); f.confirmed != nil && whole-told >= c.keepEvery {
			told = whole
			c.mux.mu.Unlock()
			f.confirmed(off, whole)
			c.mux.mu.Lock()
			continue
		}
		if len(x.todo) > 0 {
			x.load(r, size)
			continue
		}
		c.mux.mu.Unlock()
		err := t.wait(ctx, f.life, time.Time{})
		c.mux.mu.Lock()
		if err != nil {
			t.halt(err)
			break
		}
	}
	x.drain(ctx)
	moved := t.plan.Contiguous() - off
	err, local := t.failure()
	t.finish()
	if err == nil {
		return moved, nil
	}
	err = f.failed("write", off+moved, err, local)
	c.mux.mu.Unlock()
	err = c.explain(ctx, f.remote.path, err) // before there is room again
	e := f.cut(ctx, off+moved)
	c.mux.mu.Lock()
	if e != nil {
		err = errors.Join(err, e)
	}
	return moved, err
}

// load reads what the first grant is about, and sends it. The caller holds
// mux.mu.
func (x *fill) load(r io.ReaderAt, size int64) {
	t := x.t
	m := t.mux
	g := x.todo[0]
	x.todo = append(x.todo[:0], x.todo[1:]...)
	if !g.stands(t) {
		return
	}
	if remote, local := t.plan.Err(); remote != nil || local != nil {
		x.giveBack(g)
		return
	}
	m.mu.Unlock()
	b := newBuffer(writeHead + g.Len)
	n, err := r.ReadAt(b.b[writeHead:writeHead+g.Len], g.Offset)
	m.mu.Lock()
	now := time.Now()
	switch {
	case !g.stands(t):
		b.free()
		return
	case n >= g.Len:
		g.send(b.b, g.Len, outgoing{buffer: b})
	case err == io.EOF && size < 0:
		t.plan.EndAt(g.Offset + int64(n))
		if n > 0 {
			g.send(b.b, n, outgoing{buffer: b})
			break
		}
		g.withdraw(t)
		b.free()
		t.plan.LocalFailed(g.Request.ID, errGone) // beyond the end it is none
	default:
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		g.withdraw(t)
		b.free()
		t.localFailed(g.Request.ID, err)
	}
	t.changed(now)
}

// giveBack gives back what is not wanted any more, as the transfer has failed.
// The caller holds mux.mu.
func (x *fill) giveBack(g grant) {
	g.withdraw(x.t)
	x.t.plan.LocalFailed(g.Request.ID, errGone)
}

// drain gives back what was granted and not sent, and waits, for some time, for
// what was sent. The caller holds mux.mu.
func (x *fill) drain(ctx context.Context) {
	t := x.t
	m := t.mux
	for _, g := range x.todo {
		if g.stands(t) {
			x.giveBack(g)
		}
	}
	x.todo = nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	for !t.over() {
		m.mu.Unlock()
		err := t.wait(ctx, ctx, time.Time{})
		m.mu.Lock()
		if err != nil {
			return
		}
	}
}

// cut cuts a file, whose writing has failed, behind what is known to be whole.
func (f *File) cut(ctx context.Context, size int64) error {
	if f.uncut {
		return nil
	}
	f.c.mux.mu.Lock()
	old, reach := f.old, f.remote.reach
	f.c.mux.mu.Unlock()
	if f.append || old == math.MaxInt64 || reach <= max(size, old) {
		return nil // nothing can lie behind it, or it is not known what did
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	var a wire.Attrs
	a.SetSize(max(size, old))
	if err := f.setstat(ctx, a); err != nil {
		return f.fail("cut", err)
	}
	return nil
}
