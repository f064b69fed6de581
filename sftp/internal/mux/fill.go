package mux

import (
	"context"
	"io"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
)

// drainTime is how long a write that was interrupted waits for the answers to
// what is in flight: the file can only be cut when nothing comes after that.
const drainTime = 5 * time.Second

// maxTodo is how many WRITEs a transfer may be granted before it has read the
// data for them. More would take room from others whose sources are faster.
const maxTodo = 4

// A fill writes a range of a file from a reader. The goroutine that needs it
// reads, right into the packets.
type fill struct {
	t    *Transfer
	todo []Grant // mux.mu: to be read and sent
}

func (x *fill) Changed() {}

func (x *fill) Ready() bool { return len(x.todo) < maxTodo }

func (x *fill) Granted(g Grant) {
	x.todo = append(x.todo, g)
	x.t.Notify()
}

// Fill writes the range of p from r to the file; with a size of -1 there, up to the end
// of r. It returns how many bytes the server has confirmed without a gap, and of an error
// whether it is of this side. progress, if it is not nil, is called with the end of these
// whenever there are so many more. The end of ctx or of life ends it.
func (f *File) Fill(ctx, life context.Context, r io.ReaderAt, p pipeline.Config, every int64, progress func(whole int64)) (moved int64, local bool, err error) {
	m, off := f.mux, p.Offset
	x := &fill{}
	t := &Transfer{File: f, Source: x}
	x.t = t
	p.Held = true
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Begin(t, p)
	t.Advance(time.Now())
	reported := off
	for !t.Over() {
		if err := contextError(ctx, life); err != nil {
			t.Halt(err)
			break
		}
		if whole := t.Plan.Contiguous(); progress != nil && whole-reported >= every {
			reported = whole
			m.mu.Unlock()
			progress(whole)
			m.mu.Lock()
			continue
		}
		if len(x.todo) > 0 {
			x.load(r, p.Size)
			t.changed(time.Now()) // whatever came of it: another may be granted
			continue
		}
		if err := t.Wait(ctx, life, time.Time{}); err != nil {
			t.Halt(err)
			break
		}
	}
	x.drain(ctx)
	moved = t.Plan.Contiguous() - off
	local, err = t.Failure()
	t.Finish()
	return moved, local, err
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
	if remote, local := t.Plan.Err(); remote != nil || local != nil {
		x.giveBack(g)
		return
	}
	m.mu.Unlock()
	b := NewBuffer(WriteHead + g.Len)
	n, err := r.ReadAt(b.Bytes[WriteHead:WriteHead+g.Len], g.Offset)
	m.mu.Lock()
	switch {
	case !g.stands(t):
		b.Free()
	case n >= g.Len:
		g.Send(b.Bytes, g.Len, b)
	case err == io.EOF && size < 0:
		t.Plan.EndAt(g.Offset + int64(n))
		if n > 0 {
			g.Send(b.Bytes, n, b)
			break
		}
		g.withdraw(t)
		b.Free()
		t.Plan.LocalFailed(g.Request.ID, ErrAbandoned) // beyond the end it is none
	default:
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		g.withdraw(t)
		b.Free()
		t.localFailed(g.Request.ID, err)
	}
}

// giveBack gives back what is not wanted any more, as the transfer has failed.
// The caller holds mux.mu.
func (x *fill) giveBack(g Grant) {
	g.withdraw(x.t)
	x.t.Plan.LocalFailed(g.Request.ID, ErrAbandoned)
}

// drain gives back what was granted and not sent, and waits, for some time, for
// what was sent. The caller holds mux.mu.
func (x *fill) drain(ctx context.Context) {
	t := x.t
	for _, g := range x.todo {
		if g.stands(t) {
			x.giveBack(g)
		}
	}
	x.todo = nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	for !t.Over() {
		if t.Wait(ctx, ctx, time.Time{}) != nil {
			return
		}
	}
}
