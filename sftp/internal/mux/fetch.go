package mux

import (
	"context"
	"io"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
)

// A fetch moves a file to a writer. Data that has come waits in buffers for the
// goroutine of the writer, so a slow writer delays no lane. Until then it is held: it keeps
// its part of the window, but does not keep back a writer that writes to a file of the same client.
type fetch struct {
	t       *Transfer
	arrived []arrival // mux.mu
}

// An arrival is data that has come and is not stored.
type arrival struct {
	id     uint32
	off    int64
	n      int
	buffer *Buffer
}

func (f *fetch) Place(pipeline.Request) []byte { return nil }

func (f *fetch) Received(_ time.Time, id uint32, off int64, b *Buffer, n int) {
	f.arrived = append(f.arrived, arrival{id, off, n, b})
	f.t.mux.link.Hold(id)
	f.t.Notify()
}

// drop gives the buffers back. The caller holds mux.mu.
func (f *fetch) drop() {
	for _, a := range f.arrived {
		f.t.Plan.LocalFailed(a.id, ErrAbandoned)
		a.buffer.Free()
	}
	f.arrived = nil
}

// Fetch writes the file from off up to its end to w, and returns how many bytes have
// moved without a gap, and of an error whether it is of this side. size is how many
// bytes there should be, or -1 if that is not known. The end of ctx or of life ends it.
func (f *File) Fetch(ctx, life context.Context, w io.WriterAt, off, size int64) (moved int64, local bool, err error) {
	m := f.mux
	x := &fetch{}
	t := &Transfer{File: f, Sink: x}
	x.t = t
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Begin(t, pipeline.Config{Offset: off, Size: size, UntilEOF: true, Repeat: true})
	t.Advance(time.Now())
	var tried time.Time // a deadline at which nothing could be done
	for !t.Over() {
		if err := contextError(ctx, life); err != nil {
			t.Halt(err)
			break
		}
		if len(x.arrived) > 0 {
			x.store(w)
			continue
		}
		until := t.Plan.Deadline()
		if until.Equal(tried) {
			until = time.Time{} // only an answer changes anything
		}
		if err := t.Wait(ctx, life, until); err != nil {
			t.Halt(err)
			break
		}
		if now := time.Now(); !until.IsZero() && !now.Before(until) && !t.Over() {
			tried = until
			t.late(now)
		}
	}
	moved = t.Plan.Contiguous() - off
	local, err = t.Failure()
	x.drop()
	t.Finish()
	return moved, local, err
}

// store stores the first arrival. The caller holds mux.mu.
func (f *fetch) store(w io.WriterAt) {
	a := f.arrived[0]
	f.arrived = append(f.arrived[:0], f.arrived[1:]...)
	t := f.t
	m := t.mux
	var err error
	piece, known := m.link.Find(a.id)
	if from := piece.Missing.Start; known && piece.Missing.End > from && a.off+int64(a.n) > from {
		// Of what was asked for twice, one answer is stored.
		m.mu.Unlock()
		_, err = w.WriteAt(a.buffer.Bytes[from-a.off:a.n], from)
		m.mu.Lock()
	}
	a.buffer.Free()
	now := time.Now()
	if err != nil {
		t.localFailed(a.id, err)
	} else {
		t.Plan.Reply(now, a.id, a.n)
	}
	t.changed(now)
}

// A direct read is one whose data goes straight to the caller's memory.
type direct struct {
	p   []byte
	off int64 // of p in the file
}

func (d *direct) Place(q pipeline.Request) []byte {
	at := q.Offset - d.off
	return d.p[at : at+int64(q.Len)]
}

func (d *direct) Received(time.Time, uint32, int64, *Buffer, int) {}

// ReadInto reads into p what the file has at off, in as many requests at once as it
// takes. It returns how many bytes that were, fewer than p has at the end of the file,
// and of an error whether it is of this side.
func (f *File) ReadInto(life context.Context, p []byte, off int64) (n int, local bool, err error) {
	m := f.mux
	t := &Transfer{File: f, Sink: &direct{p: p, off: off}}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Begin(t, pipeline.Config{Offset: off, Size: int64(len(p))})
	t.Advance(time.Now())
	for !t.Over() {
		if err := t.Wait(life, life, time.Time{}); err != nil {
			t.Halt(err)
			break
		}
	}
	n = int(t.Plan.Contiguous() - off)
	local, err = t.Failure()
	t.Finish()
	for m.table.filling(t) {
		// A lane writes to p. It is done when the packet has come, or the lane
		// has ended.
		m.mu.Unlock()
		<-t.Notified
		m.mu.Lock()
	}
	return n, local, err
}
