package s3

import (
	"context"
	"io"
	"io/fs"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/internal/rate"
)

const (
	// fetchChunk is the largest range, in bytes, that FetchTo requests at once.
	fetchChunk = 8 << 20

	// fetchParallel is the number of ranges that FetchTo requests at the same time before it has
	// measured whether more are faster.
	fetchParallel = 4

	// copyBuffer is the number of bytes of an answer that are read and written at once.
	copyBuffer = 256 << 10
)

var copyBuffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

// A download is one call of FetchTo.
type download struct {
	f      *file
	w      io.WriterAt
	ctx    context.Context
	cancel context.CancelCauseFunc
	work   sync.WaitGroup
	woken  chan struct{}

	mu    sync.Mutex
	plan  *pipeline.Plan // decides which range to request next; guarded by mu
	err   error          // why the download failed; guarded by mu
	local bool           // the writer caused err; guarded by mu
}

// FetchTo copies the content, from off to its end, to the same offsets of w. It sends several
// requests at the same time. It returns the number of bytes from off that were written without a
// gap.
func (f *file) FetchTo(ctx context.Context, w io.WriterAt, off int64) (int64, error) {
	switch {
	case f.ctx.Err() != nil:
		return 0, f.c.fail("read", f.name, fs.ErrClosed)
	case off < 0:
		return 0, f.c.fail("read", f.name, fs.ErrInvalid)
	case off >= f.info.size:
		return 0, nil
	}
	x := &download{f: f, w: w, woken: make(chan struct{}, 1)}
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	defer x.cancel(nil)
	defer context.AfterFunc(f.ctx, func() { x.cancel(context.Cause(f.ctx)) })()
	parallel := min(f.c.config.Parts, pipeline.MaxSessions)
	x.plan = pipeline.New(pipeline.Config{
		Link: pipeline.NewLink(pipeline.Limits{
			SessionBytes: fetchChunk, MinBytes: min(fetchParallel, parallel) * fetchChunk, MaxBytes: parallel * fetchChunk, Sessions: parallel,
		}),
		Offset: off, Size: f.info.size - off, Chunk: fetchChunk,
	})
	for !x.step() {
		select {
		case <-x.woken:
		case <-x.ctx.Done():
			x.fail(context.Cause(x.ctx), false)
		}
	}
	x.cancel(nil)
	x.work.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	at := x.plan.Contiguous()
	if x.err != nil {
		return at - off, &TransferError{Op: "read", URL: f.c.url(f.name), Offset: at, Local: x.local, Err: x.err}
	}
	return at - off, nil
}

// fail ends the download with err, unless it has failed before.
func (x *download) fail(err error, local bool) {
	x.mu.Lock()
	if x.err == nil {
		x.err, x.local = err, local
	}
	x.mu.Unlock()
	x.wake()
}

func (x *download) wake() {
	select {
	case x.woken <- struct{}{}:
	default:
	}
}

// step sends the requests that can be sent now, and reports whether the download is over.
func (x *download) step() (over bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err != nil || x.plan.Done() {
		return true
	}
	link := x.plan.Link()
	for session := range x.plan.Sessions() {
		if link.Outstanding(session) > 0 {
			continue // a session here is a connection, which handles one request at a time
		}
		if q, due := x.plan.Next(time.Now(), session); due {
			x.work.Go(func() { x.part(q) })
		}
	}
	return false
}

// part transfers one range. If a request fails, it sends another one for the rest.
func (x *download) part(q pipeline.Request) {
	e := new(attempts)
	for at, end := q.Offset, q.Offset+int64(q.Len); at < end; {
		n, local, err := x.copy(at, end)
		at += n
		if n > 0 {
			*e = attempts{}
		}
		if err == nil {
			continue
		}
		if x.ctx.Err() != nil {
			x.fail(context.Cause(x.ctx), false)
			return
		}
		pause, again := time.Duration(0), false
		if !local {
			pause, again = x.f.c.again(e, err)
			err = given(err, e.tries)
		}
		if again {
			again = rate.Sleep(x.ctx, pause) == nil
		}
		if !again {
			x.fail(err, local)
			return
		}
	}
	x.mu.Lock()
	x.plan.Reply(time.Now(), q.ID, q.Len)
	x.mu.Unlock()
	x.wake()
}

// copy writes the data from off up to `end`. It uses an open answer that contains the data, or
// sends a new request. It returns the number of bytes written.
func (x *download) copy(off, end int64) (n int64, local bool, err error) {
	st := x.f.c.streams.take(x.f.ctx, off)
	if st == nil {
		body, err := x.f.get(x.ctx, off, end-off)
		if err != nil {
			return 0, false, err
		}
		st = &stream{file: x.f.ctx, body: body, at: off, end: end}
	}
	defer st.body.Close()
	defer context.AfterFunc(x.ctx, func() { _ = st.body.Close() })()
	buf := copyBuffers.Get().(*[copyBuffer]byte)
	defer copyBuffers.Put(buf)
	for st.at < end {
		at := st.at
		got, err := st.Read(buf[:min(end-at, copyBuffer)]) // the answer may extend beyond the range
		if got > 0 {
			if _, e := x.w.WriteAt(buf[:got], at); e != nil {
				return n, true, e
			}
			n += int64(got)
		}
		if err != nil {
			return n, false, err
		}
	}
	// Read the end of the body, so that the connection can be reused. The data is complete, so an
	// error does not matter.
	_, _ = st.body.Read(buf[:1])
	return n, false, nil
}
