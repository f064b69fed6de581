package sftpclient

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
)

// A fetch is a whole file on its way to a writer. What comes waits in buffers
// for the goroutine that wants it: a writer that is slow holds up no lane. But it
// holds its part of the window, so what goes to another file of the same client
// might wait for itself.
type fetch struct {
	t       *transfer
	arrived []arrival // mux.mu
}

// An arrival is data that has come and is not stored.
type arrival struct {
	id     uint32
	off    int64
	n      int
	buffer *buffer
}

func (f *fetch) place(pipeline.Request) []byte { return nil }
func (f *fetch) granted(grant)                 {}

func (f *fetch) received(_ time.Time, id uint32, off int64, b *buffer, n int) {
	f.arrived = append(f.arrived, arrival{id, off, n, b})
	f.t.notify()
}

func (f *fetch) changed() {
	if f.t.over() {
		f.t.notify()
	}
}

// drop gives the buffers back. The caller holds mux.mu.
func (f *fetch) drop() {
	for _, a := range f.arrived {
		f.t.plan.LocalFailed(a.id, errGone)
		a.buffer.free()
	}
	f.arrived = nil
}

// FetchTo writes the file from off up to its end to w, with many requests on
// their way at once, and returns how many bytes from off on have come without a
// gap. w is written at the offsets of the file, in any order and by one
// goroutine.
//
// What fails is a [*TransferError], whose Local is set if it is w, or a context.
// Then w may have bytes behind the returned number too: cut it there.
func (f *File) FetchTo(ctx context.Context, w io.WriterAt, off int64) (int64, error) {
	if err := f.forReading("read", off); err != nil {
		return 0, err
	}
	if f.small != nil {
		return f.fetchSmall(w, off)
	}
	if err := f.awaitWrites(ctx); err != nil {
		return 0, err
	}
	m := f.c.mux
	x := &fetch{}
	t := &transfer{file: f.remote, endpoint: x}
	x.t = t
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin(t, pipeline.Config{Offset: off, Size: f.sizeFrom(off), UntilEOF: true, Repeat: true})
	t.ask(time.Now())
	t.spread()
	m.serve(time.Now())
	var tried time.Time // a deadline at which nothing could be done
	for !t.over() {
		if err := contextError(ctx, f.life); err != nil {
			t.halt(err)
			break
		}
		if len(x.arrived) > 0 {
			x.store(w)
			continue
		}
		until := t.plan.Deadline()
		if until.Equal(tried) {
			until = time.Time{} // only an answer changes anything
		}
		m.mu.Unlock()
		err := t.wait(ctx, f.life, until)
		m.mu.Lock()
		if err != nil {
			t.halt(err)
			break
		}
		if now := time.Now(); !until.IsZero() && !now.Before(until) && !t.over() {
			tried = until
			t.late(now)
		}
	}
	moved := t.plan.Contiguous() - off
	err, local := t.failure()
	x.drop()
	t.finish()
	if err != nil {
		return moved, &TransferError{Op: "read", Name: f.name, Offset: off + moved, Local: local, Err: err}
	}
	return moved, nil
}

// store stores the first arrival. The caller holds mux.mu.
func (f *fetch) store(w io.WriterAt) {
	a := f.arrived[0]
	f.arrived = append(f.arrived[:0], f.arrived[1:]...)
	t := f.t
	m := t.mux
	p, ok := m.link.Find(a.id)
	var err error
	if from := p.Missing.Start; ok && p.Missing.End > from && a.off+int64(a.n) > from {
		// Of what was asked for twice, one answer is stored.
		m.mu.Unlock()
		_, err = w.WriteAt(a.buffer.b[from-a.off:a.n], from)
		m.mu.Lock()
	}
	a.buffer.free()
	now := time.Now()
	if err != nil {
		t.localFailed(a.id, err)
	} else {
		t.plan.Reply(now, a.id, a.n)
	}
	t.changed(now)
}

// A direct read is one whose data goes straight to the caller's memory.
type direct struct {
	t   *transfer
	p   []byte
	off int64 // of p in the file
}

func (d *direct) place(q pipeline.Request) []byte {
	at := q.Offset - d.off
	return d.p[at : at+int64(q.Len)]
}

func (d *direct) granted(grant)                                   {}
func (d *direct) received(time.Time, uint32, int64, *buffer, int) {}
func (d *direct) changed() {
	if d.t.over() {
		d.t.notify()
	}
}

// readDirect reads into p what the file has at off, in as many requests at once
// as it takes.
func (f *File) readDirect(p []byte, off int64) (int, error) {
	m := f.c.mux
	d := &direct{p: p, off: off}
	t := &transfer{file: f.remote, endpoint: d}
	d.t = t
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin(t, pipeline.Config{Offset: off, Size: int64(len(p))})
	t.ask(time.Now())
	t.spread()
	m.serve(time.Now())
	for !t.over() {
		m.mu.Unlock()
		err := t.wait(f.life, f.life, time.Time{})
		m.mu.Lock()
		if err != nil {
			t.halt(err)
			break
		}
	}
	n := int(t.plan.Contiguous() - off)
	err, local := t.failure()
	t.finish()
	for m.table.filling(t) {
		// A lane writes to p. It is done when the packet has come, or the lane
		// has ended.
		m.mu.Unlock()
		<-t.notified
		m.mu.Lock()
	}
	switch {
	case err != nil:
		return n, f.failed("read", off+int64(n), err, local)
	case n < len(p):
		return n, io.EOF
	}
	return n, nil
}

// failed is the error for a transfer that failed, unless it was closed.
func (f *File) failed(op string, off int64, err error, local bool) error {
	if errors.Is(err, fs.ErrClosed) {
		return f.fail(op, fs.ErrClosed)
	}
	return &TransferError{Op: op, Name: f.name, Offset: off, Local: local, Err: err}
}
