package sftpclient

import (
	"github.com/haul-project/haul/sftp/internal/mux"

	"context"
	"io"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
)

// A fetch is a whole file on its way to a writer. What comes waits in buffers
// for the goroutine that wants it: a writer that is slow holds up no lane. But it
// holds its part of the window, so what goes to another file of the same client
// might wait for itself.
type fetch struct {
	t       *mux.Transfer
	arrived []arrival // mux.mu
}

// An arrival is data that has come and is not stored.
type arrival struct {
	id     uint32
	off    int64
	n      int
	buffer *mux.Buffer
}

func (f *fetch) Place(pipeline.Request) []byte { return nil }

func (f *fetch) Received(_ time.Time, id uint32, off int64, b *mux.Buffer, n int) {
	f.arrived = append(f.arrived, arrival{id, off, n, b})
	f.t.Notify()
}

func (f *fetch) Changed() {
	if f.t.Over() {
		f.t.Notify()
	}
}

// drop gives the buffers back. The caller holds mux.mu.
func (f *fetch) drop() {
	for _, a := range f.arrived {
		f.t.Plan.LocalFailed(a.id, mux.ErrAbandoned)
		a.buffer.Free()
	}
	f.arrived = nil
}

// fetch is FetchTo for a file that has been looked at.
func (f *openedFile) fetch(ctx context.Context, w io.WriterAt, off int64) (int64, error) {
	m := f.c.mux
	x := &fetch{}
	t := &mux.Transfer{File: f.remote, Sink: x}
	x.t = t
	m.Lock()
	defer m.Unlock()
	m.Begin(t, pipeline.Config{Offset: off, Size: f.sizeFrom(off), UntilEOF: true, Repeat: true})
	t.Ask(time.Now())
	t.Spread()
	m.Serve(time.Now())
	var tried time.Time // a deadline at which nothing could be done
	for !t.Over() {
		if err := contextError(ctx, f.life); err != nil {
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
		m.Unlock()
		err := t.Wait(ctx, f.life, until)
		m.Lock()
		if err != nil {
			t.Halt(err)
			break
		}
		if now := time.Now(); !until.IsZero() && !now.Before(until) && !t.Over() {
			tried = until
			t.Late(now)
		}
	}
	moved := t.Plan.Contiguous() - off
	err, local := t.Failure()
	x.drop()
	t.Finish()
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
	m := t.Mux
	from, end, ok := t.Missing(a.id)
	var err error
	if ok && end > from && a.off+int64(a.n) > from {
		// Of what was asked for twice, one answer is stored.
		m.Unlock()
		_, err = w.WriteAt(a.buffer.Bytes[from-a.off:a.n], from)
		m.Lock()
	}
	a.buffer.Free()
	now := time.Now()
	if err != nil {
		t.LocalFailed(a.id, err)
	} else {
		t.Plan.Reply(now, a.id, a.n)
	}
	t.Changed(now)
}

// A direct read is one whose data goes straight to the caller's memory.
type direct struct {
	t   *mux.Transfer
	p   []byte
	off int64 // of p in the file
}

func (d *direct) Place(q pipeline.Request) []byte {
	at := q.Offset - d.off
	return d.p[at : at+int64(q.Len)]
}

func (d *direct) Received(time.Time, uint32, int64, *mux.Buffer, int) {}
func (d *direct) Changed() {
	if d.t.Over() {
		d.t.Notify()
	}
}

// readDirect reads into p what the file has at off, in as many requests at once
// as it takes.
func (f *openedFile) readDirect(p []byte, off int64) (int, error) {
	m := f.c.mux
	d := &direct{p: p, off: off}
	t := &mux.Transfer{File: f.remote, Sink: d}
	d.t = t
	m.Lock()
	defer m.Unlock()
	m.Begin(t, pipeline.Config{Offset: off, Size: int64(len(p))})
	t.Ask(time.Now())
	t.Spread()
	m.Serve(time.Now())
	for !t.Over() {
		m.Unlock()
		err := t.Wait(f.life, f.life, time.Time{})
		m.Lock()
		if err != nil {
			t.Halt(err)
			break
		}
	}
	n := int(t.Plan.Contiguous() - off)
	err, local := t.Failure()
	t.Finish()
	for t.Filling() {
		// A lane writes to p. It is done when the packet has come, or the lane
		// has ended.
		m.Unlock()
		<-t.Notified
		m.Lock()
	}
	switch {
	case err != nil:
		return n, f.failed("read", off+int64(n), err, local)
	case n < len(p):
		return n, io.EOF
	}
	return n, nil
}

// fetchSmall is FetchTo for a file of which all is here.
func (f *openedFile) fetchSmall(w io.WriterAt, off int64) (int64, error) {
	b := f.small[min(off, int64(len(f.small))):]
	if len(b) == 0 {
		return 0, nil
	}
	n, err := w.WriteAt(b, off)
	if err != nil {
		moved := int64(min(max(n, 0), len(b)))
		return moved, &TransferError{Op: "read", Name: f.name, Offset: off + moved, Local: true, Err: err}
	}
	return int64(len(b)), nil
}

// readSmall is ReadAt for such a file.
func (f *openedFile) readSmall(p []byte, off int64) (int, error) {
	n := copy(p, f.small[min(off, int64(len(f.small))):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
