package sftpclient

import (
	"github.com/haul-project/haul/sftp/internal/mux"

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

// maxTodo is how many WRITEs a transfer may be granted before it has read the
// data for them. More would take room from others whose sources are faster.
const maxTodo = 4

// A fill is a range of a file on its way from a reader. The goroutine that
// wants it reads, right into the packets.
type fill struct {
	t    *mux.Transfer
	todo []mux.Grant // mux.mu: to be read and sent
}

func (x *fill) Changed() {
	if x.t.Over() {
		x.t.Notify()
	}
}

func (x *fill) Ready() bool { return len(x.todo) < maxTodo }

func (x *fill) Granted(g mux.Grant) {
	x.todo = append(x.todo, g)
	x.t.Notify()
}

var errSize = errors.New("no size that a file can have")

func (f *openedFile) fillConfig(off, size int64) pipeline.Config {
	p := pipeline.Config{Offset: off, Size: size}
	if f.append {
		p.Span = int64(f.c.server.Chunk[1]) // one after the other
	}
	return p
}

// fillFrom is FillFrom for a file of which nothing is written behind.
func (f *openedFile) fillFrom(ctx context.Context, r io.ReaderAt, off, size int64) (int64, error) {
	c := f.c
	x := &fill{}
	t := &mux.Transfer{File: f.remote, Source: x}
	x.t = t
	c.mux.Lock()
	defer c.mux.Unlock()
	c.mux.Begin(t, f.fillConfig(off, size))
	t.Ask(time.Now())
	t.Spread()
	c.mux.Serve(time.Now())
	reported := off
	for !t.Over() {
		if err := contextError(ctx, f.life); err != nil {
			t.Halt(err)
			break
		}
		if whole := t.Plan.Contiguous(); f.confirmed != nil && whole-reported >= c.keepEvery {
			reported = whole
			c.mux.Unlock()
			f.confirmed(off, whole)
			c.mux.Lock()
			continue
		}
		if len(x.todo) > 0 {
			x.load(r, size)
			continue
		}
		c.mux.Unlock()
		err := t.Wait(ctx, f.life, time.Time{})
		c.mux.Lock()
		if err != nil {
			t.Halt(err)
			break
		}
	}
	x.drain(ctx)
	moved := t.Plan.Contiguous() - off
	err, local := t.Failure()
	t.Finish()
	if err == nil {
		return moved, nil
	}
	err = f.failed("write", off+moved, err, local)
	c.mux.Unlock()
	err = c.explain(ctx, f.remote.Path, err) // before there is room again
	e := f.cut(ctx, off+moved)
	c.mux.Lock()
	if e != nil {
		err = errors.Join(err, e)
	}
	return moved, err
}

// load reads what the first grant is about, and sends it. The caller holds
// mux.mu.
func (x *fill) load(r io.ReaderAt, size int64) {
	t := x.t
	m := t.Mux
	g := x.todo[0]
	x.todo = append(x.todo[:0], x.todo[1:]...)
	if !g.Stands(t) {
		return
	}
	if remote, local := t.Plan.Err(); remote != nil || local != nil {
		x.giveBack(g)
		return
	}
	m.Unlock()
	b := mux.NewBuffer(mux.WriteHead + g.Len)
	n, err := r.ReadAt(b.Bytes[mux.WriteHead:mux.WriteHead+g.Len], g.Offset)
	m.Lock()
	now := time.Now()
	switch {
	case !g.Stands(t):
		b.Free()
		return
	case n >= g.Len:
		g.Send(b.Bytes, g.Len, b)
	case err == io.EOF && size < 0:
		t.Plan.EndAt(g.Offset + int64(n))
		if n > 0 {
			g.Send(b.Bytes, n, b)
			break
		}
		g.Withdraw(t)
		b.Free()
		t.Plan.LocalFailed(g.Request.ID, mux.ErrAbandoned) // beyond the end it is none
	default:
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		g.Withdraw(t)
		b.Free()
		t.LocalFailed(g.Request.ID, err)
	}
	t.Changed(now)
}

// giveBack gives back what is not wanted any more, as the transfer has failed.
// The caller holds mux.mu.
func (x *fill) giveBack(g mux.Grant) {
	g.Withdraw(x.t)
	x.t.Plan.LocalFailed(g.Request.ID, mux.ErrAbandoned)
}

// drain gives back what was granted and not sent, and waits, for some time, for
// what was sent. The caller holds mux.mu.
func (x *fill) drain(ctx context.Context) {
	t := x.t
	m := t.Mux
	for _, g := range x.todo {
		if g.Stands(t) {
			x.giveBack(g)
		}
	}
	x.todo = nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	for !t.Over() {
		m.Unlock()
		err := t.Wait(ctx, ctx, time.Time{})
		m.Lock()
		if err != nil {
			return
		}
	}
}

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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	var a wire.Attrs
	a.SetSize(max(size, old))
	if err := f.setstat(ctx, a); err != nil {
		return f.fail("cut", err)
	}
	return nil
}
