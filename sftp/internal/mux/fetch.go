package mux

import (
	"context"
	"io"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
)

// A fetch moves a file to a writer. Received data is kept in buffers until the goroutine that
// called Fetch writes it, so that a slow writer does not delay a session. The plan counts the
// requests for such data as held: they use room in the window, but if the writer is another file of
// the same client, they do not block its requests.
type fetch struct {
	t    *transfer
	came []arrival // data that was received and is not written yet; guarded by mu
}

// An arrival is data that was received and is not written yet.
type arrival struct {
	id     uint32
	off    int64
	n      int
	buffer *Buffer
}

func (x *fetch) place(pipeline.Request) []byte { return nil }

func (x *fetch) received(_ time.Time, id uint32, off int64, b *Buffer, n int) {
	x.came = append(x.came, arrival{id, off, n, b})
	x.t.all.link.Hold(id)
	x.t.notify()
}

// drop frees the buffers of data that will not be written.
func (x *fetch) drop() {
	for _, a := range x.came {
		x.t.plan.LocalFailed(a.id, errAbandoned)
		a.buffer.Free()
	}
	x.came = nil
}

// Fetch writes the content of the file, from offset off up to its end, to w. It returns how many
// bytes were written without a gap, and a [*Failure] if some are missing. Fetch stops early when
// ctx or the file's life ends.
func (f *File) Fetch(ctx context.Context, w io.WriterAt, off int64) (moved int64, err error) {
	x := &fetch{}
	t := &transfer{file: &f.handleSet, sink: x}
	x.t = t
	f.mux.mu.Lock()
	defer f.mux.mu.Unlock()
	f.mux.transfers.begin(t, pipeline.Config{Offset: off, Size: f.sizeFrom(off), UntilEOF: true, Repeat: true})
	t.advance(time.Now())
	var tried time.Time // the deadline at which late requests were last repeated
	for !t.over() {
		if err := contextError(ctx, f.life); err != nil {
			t.halt(err)
			break
		}
		if len(x.came) > 0 {
			x.store(w)
			continue
		}
		until := t.plan.Deadline()
		if until.Equal(tried) {
			until = time.Time{} // only an answer can change anything now
		}
		if err := t.wait(ctx, f.life, until); err != nil {
			t.halt(err)
			break
		}
		if now := time.Now(); !until.IsZero() && !now.Before(until) && !t.over() {
			tried = until
			t.repeatLate(now)
		}
	}
	end := t.plan.Contiguous()
	local, err := t.failure()
	x.drop()
	t.finish()
	return end - off, asFailure(end, local, err)
}

// store writes the oldest arrival to w. It unlocks mu while it writes.
func (x *fetch) store(w io.WriterAt) {
	a := x.came[0]
	x.came = append(x.came[:0], x.came[1:]...)
	t := x.t
	all := t.all
	var err error
	piece, known := all.link.Find(a.id)
	if from := piece.Missing.Start; known && piece.Missing.End > from && a.off+int64(a.n) > from {
		// If bytes were requested twice, only the first answer is written. New bytes begin at the
		// offset `from`.
		all.mu.Unlock()
		_, err = w.WriteAt(a.buffer.Bytes[from-a.off:a.n], from)
		all.mu.Lock()
	}
	a.buffer.Free()
	now := time.Now()
	if err != nil {
		t.localFailed(a.id, err)
	} else {
		t.plan.Reply(now, a.id, a.n)
	}
	t.changed(now)
}

// A direct is the sink of a read whose data is stored directly in the caller's memory p.
type direct struct {
	p   []byte
	off int64 // offset in the file at which the data of p begins
}

func (d *direct) place(q pipeline.Request) []byte {
	at := q.Offset - d.off
	return d.p[at : at+int64(q.Len)]
}

func (d *direct) received(time.Time, uint32, int64, *Buffer, int) {}

// ReadInto reads the bytes of the file at off into p, with as many requests in flight as needed. It
// returns how many bytes it has read, which is fewer than len(p) at the end of the file. Its error
// is a [*Failure].
func (f *File) ReadInto(p []byte, off int64) (n int, err error) {
	m := f.mux
	t := &transfer{file: &f.handleSet, sink: &direct{p: p, off: off}}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.transfers.begin(t, pipeline.Config{Offset: off, Size: int64(len(p))})
	t.advance(time.Now())
	for !t.over() {
		if err := t.wait(f.life, f.life, time.Time{}); err != nil {
			t.halt(err)
			break
		}
	}
	end := t.plan.Contiguous()
	local, err := t.failure()
	t.finish()
	for m.table.isFilling(t) {
		// A session is still writing to p. It stops when it has read the packet, or when it ends.
		m.mu.Unlock()
		<-t.notified
		m.mu.Lock()
	}
	return int(end - off), asFailure(end, local, err)
}
