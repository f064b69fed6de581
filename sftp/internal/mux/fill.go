package mux

import (
	"context"
	"io"
	"time"
)

// fillEnd is how long an interrupted write waits for the answers to the requests in flight. The
// file may be truncated only once no WRITE can arrive any more.
const fillEnd = 5 * time.Second

// maxTodo is how many grants of WRITEs a fill may have before it has read their data. More grants
// would take room from transfers whose sources are faster.
const maxTodo = 4

// A fill writes a range of a file from a reader. The goroutine that called Fill reads the data
// directly into the packets.
type fill struct {
	t    *transfer
	todo []grant // grants of WRITEs whose data is not read yet; guarded by mu
}

func (x *fill) changed() {}

func (x *fill) ready() bool { return len(x.todo) < maxTodo }

func (x *fill) granted(g grant) {
	x.todo = append(x.todo, g)
	x.t.notify()
}

// Fill copies `size` bytes of r, starting at the offset off, to the same offsets of the file. A
// size of -1 means that Fill copies up to the end of r. Fill returns how many bytes the server has
// confirmed without a gap, and a [*Failure] if some are missing. After at least `every` further
// bytes are confirmed, Fill calls progress, if it is not nil, with the offset up to which all bytes
// are confirmed. Fill stops early when ctx or the file's life ends.
func (f *File) Fill(ctx context.Context, r io.ReaderAt, off, size, every int64, progress func(end int64)) (moved int64, err error) {
	m := f.mux
	x := &fill{}
	t := &transfer{file: &f.handleSet, source: x}
	x.t = t
	p := f.fillConfig(off, size)
	p.Held = true
	m.mu.Lock()
	defer m.mu.Unlock()
	m.transfers.begin(t, p)
	t.advance(time.Now())
	reported := off
	for !t.over() {
		if err := contextError(ctx, f.life); err != nil {
			t.halt(err)
			break
		}
		if end := t.plan.Contiguous(); progress != nil && end-reported >= every {
			reported = end
			m.mu.Unlock()
			progress(end)
			m.mu.Lock()
			continue
		}
		if len(x.todo) > 0 {
			x.load(r, size)
			t.changed(time.Now()) // another WRITE may be granted now, even if this one failed
			continue
		}
		if err := t.wait(ctx, f.life, time.Time{}); err != nil {
			t.halt(err)
			break
		}
	}
	x.drain(ctx)
	end := t.plan.Contiguous()
	local, err := t.failure()
	t.finish()
	return end - off, asFailure(end, local, err)
}

// load reads the data of the oldest grant and sends its WRITE. It unlocks mu while it reads.
func (x *fill) load(r io.ReaderAt, size int64) {
	t := x.t
	mu := &t.all.mu
	g := x.todo[0]
	x.todo = append(x.todo[:0], x.todo[1:]...)
	if !g.isValid(t) {
		return
	}
	if remote, local := t.plan.Err(); remote != nil || local != nil {
		x.giveBack(g)
		return
	}
	mu.Unlock()
	b := NewBuffer(WriteHead + g.Len)
	n, err := r.ReadAt(b.Bytes[WriteHead:WriteHead+g.Len], g.Offset)
	mu.Lock()
	switch {
	case !g.isValid(t):
		b.Free()
	case n >= g.Len:
		g.send(t, b.Bytes, g.Len, b)
	case err == io.EOF && size < 0:
		t.plan.EndAt(g.Offset + int64(n))
		if n > 0 {
			g.send(t, b.Bytes, n, b)
			break
		}
		g.withdraw(t)
		b.Free()
		// This is not a failure of the transfer: the range is beyond the end of r.
		t.plan.LocalFailed(g.Request.ID, errAbandoned)
	default:
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		g.withdraw(t)
		b.Free()
		t.localFailed(g.Request.ID, err)
	}
}

// giveBack returns a grant that is no longer needed because the transfer has failed.
func (x *fill) giveBack(g grant) {
	g.withdraw(x.t)
	x.t.plan.LocalFailed(g.Request.ID, errAbandoned)
}

// drain returns the unused grants. Then it waits, at most fillEnd, for the answers to the WRITEs
// that were sent. It unlocks mu while it waits.
func (x *fill) drain(ctx context.Context) {
	t := x.t
	for _, g := range x.todo {
		if g.isValid(t) {
			x.giveBack(g)
		}
	}
	x.todo = nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fillEnd)
	defer cancel()
	for !t.over() {
		if t.wait(ctx, ctx, time.Time{}) != nil {
			return
		}
	}
}
