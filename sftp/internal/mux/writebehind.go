package mux

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

const (
	// maxRuns is how many separate ranges of a file may have unconfirmed data at a time.
	maxRuns = 64

	// maxCopy is how many bytes are copied at a time while the lock is held.
	maxCopy = 32 << 10
)

// errGivenUp means that a file was closed before the server had confirmed the data written to it.
var errGivenUp = errors.New("closed before it was written")

// A WriteBehind holds data that was written to a file and that the server has not confirmed. Its
// methods must not be called concurrently, except Dirty. They take mu.
type WriteBehind struct {
	f        *File
	dirty    atomic.Bool   // some data is not confirmed
	runs     []*run        // the ranges with unconfirmed data, oldest first
	notified chan struct{} // the channel `notified` of the transfers of all runs
	err      error         // the first error, a *Failure; nil if nothing has failed
	// whole is the offset of the first byte that may be missing because a write has failed. It is
	// MaxInt64 if no write has failed.
	whole int64
	use   segmentUse // guarded by mu
}

// Begin prepares b for writing to the file f. Before, b must be the zero value.
func (b *WriteBehind) Begin(f *File) {
	b.f, b.whole, b.use.all = f, math.MaxInt64, &f.mux.buffers
}

// Dirty reports whether some written data is not confirmed.
func (b *WriteBehind) Dirty() bool { return b.dirty.Load() }

// Err returns the first error, a [*Failure], or nil.
func (b *WriteBehind) Err() error { return b.err }

// Runs returns the number of separate ranges of the file that have unconfirmed data.
func (b *WriteBehind) Runs() int { return len(b.runs) }

// noteFailure records a failure, and returns the first error that was recorded.
func (b *WriteBehind) noteFailure(err error) error {
	if b.err == nil {
		b.err = err
	}
	return b.err
}

// Write writes p at the offset off. It returns once all of p is copied, and waits for memory if
// necessary. Its error is a [*Failure].
func (b *WriteBehind) Write(p []byte, off int64) (n int, err error) {
	r, err := b.runAt(off, int64(len(p)))
	if err != nil {
		return 0, err
	}
	for n < len(p) {
		some, err := r.add(p[n:])
		n += some
		if err != nil {
			return n, b.noteFailure(err)
		}
	}
	return n, nil
}

// WriteFrom writes the data of r, up to the end of r, at the offset off. It returns the number of
// bytes. Its error is a [*Failure]. If Err returns nil, the error comes from r.
func (b *WriteBehind) WriteFrom(r io.Reader, off int64) (n int64, err error) {
	to, err := b.runAt(off, 1)
	if err != nil {
		return 0, err
	}
	for {
		some, err := to.readFrom(r, off+n, b.f.mux.Server.WriteChunk)
		n += int64(some)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// Hold reads size bytes from r, to be written at off, but does not send them yet. SendClosing sends
// them, and so does any other operation that needs them on the server. Hold returns how many bytes
// it has read. If there is no memory for them, it reads nothing and returns false as ok. Its error
// is a [*Failure]. If Err returns nil, the error comes from r.
func (b *WriteBehind) Hold(r io.Reader, off, size int64) (n int64, ok bool, err error) {
	m := b.f.mux
	m.mu.Lock()
	reserved := m.buffers.reserve(size, int64(m.config.Memory))
	m.mu.Unlock()
	if !reserved {
		return 0, false, nil
	}
	defer func() { // release the reservation: the segments have counted their memory themselves
		m.mu.Lock()
		m.buffers.held -= size
		m.mu.Unlock()
	}()
	to, err := b.runAt(off, size)
	if err != nil {
		return 0, true, err
	}
	m.mu.Lock()
	to.whole = true
	to.t.plan.EndAt(off + size)
	m.mu.Unlock()
	for n < size {
		some, err := to.readFrom(r, off+n, int(size-n))
		n += int64(some)
		switch {
		case b.err != nil:
			return n, true, err
		case err == io.EOF && n < size:
			return n, true, &Failure{off + n, true, io.ErrUnexpectedEOF}
		case err != nil && err != io.EOF:
			return n, true, err
		}
	}
	return n, true, nil
}

// Await waits until the server has confirmed all written data. It returns the first error, which is
// a [*Failure]. It returns early when ctx or the file's life ends.
func (b *WriteBehind) Await(ctx context.Context) error {
	if !b.dirty.Load() || b.err != nil {
		return b.err
	}
	m := b.f.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	b.endRuns()
	for len(b.runs) > 0 {
		r := b.runs[0]
		for !r.t.over() {
			if err := r.t.wait(ctx, b.f.life, time.Time{}); err != nil {
				// The results of the other runs remain unknown. Finish handles them.
				for _, r := range b.runs {
					r.t.halt(err)
				}
				return b.noteFailure(&Failure{r.t.plan.Contiguous(), true, err})
			}
		}
		b.forgetRun()
	}
	b.dirty.Store(false)
	return b.err
}

// SendClosing sends the remaining data, followed by an FSETSTAT and a CLOSE. It returns nil if that
// is impossible, because the file is open in several sessions or writing has failed.
func (b *WriteBehind) SendClosing(ctx context.Context, a wire.Attrs) *Closing {
	if b.err != nil {
		return nil
	}
	m := b.f.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	if !b.sendRuns(ctx) {
		return nil
	}
	return b.f.closeBehind(a)
}

// Finish stops writing, and drops the data that is not confirmed. If writing has failed and cut is
// set, Finish truncates the file: see [File.Cut].
func (b *WriteBehind) Finish(ctx context.Context, cut bool) error {
	m := b.f.mux
	m.mu.Lock()
	for len(b.runs) > 0 {
		r := b.runs[0]
		if !r.idle() {
			r.t.halt(errGivenUp)
		}
		for err := error(nil); !r.t.over() && r.t.plan.Outstanding() > 0 && err == nil; {
			err = r.t.wait(ctx, ctx, time.Time{})
		}
		b.forgetRun()
	}
	m.mu.Unlock()
	if !cut || b.err == nil || b.whole == math.MaxInt64 {
		return nil
	}
	return b.f.Cut(ctx, b.whole)
}

// runAt returns the run whose data ends at off, or a new run. It first waits until no other run
// overlaps the n bytes at off. It locks mu.
func (b *WriteBehind) runAt(off, n int64) (*run, error) {
	m := b.f.mux
	m.mu.Lock()
	overlaps, kept := false, b.runs[:0]
	var found *run
	for _, r := range b.runs {
		switch {
		case r.end == off && !r.whole:
			found = r
		case r.idle():
			r.t.finish()
			continue
		case r.start < off+n && off < r.end:
			overlaps = true
		}
		kept = append(kept, r)
	}
	clear(b.runs[len(kept):])
	b.runs = kept
	m.mu.Unlock()
	if found != nil && !overlaps {
		return found, nil
	}
	if overlaps || len(b.runs) == maxRuns {
		if err := b.Await(b.f.life); err != nil {
			return nil, err
		}
	}
	if b.notified == nil {
		b.notified = make(chan struct{}, 1)
	}
	r := &run{b: b, start: off, end: off}
	r.t = &transfer{file: &b.f.handleSet, source: r, notified: b.notified}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.transfers.begin(r.t, b.f.fillConfig(off, -1))
	r.t.plan.Limit(off)
	b.runs = append(b.runs, r)
	b.dirty.Store(true)
	return r, nil
}

// endRuns makes the transfers of all runs send their unsent data. No more data may be added to the
// runs afterwards.
func (b *WriteBehind) endRuns() {
	now := time.Now()
	for _, r := range b.runs {
		r.t.plan.EndAt(r.end)
		r.t.ask(now)
	}
	b.f.mux.transfers.grantRoom(now)
}

// sendRuns waits until all data has been sent. It returns false if sending failed; then Await
// returns the reason. It unlocks mu while it waits.
func (b *WriteBehind) sendRuns(ctx context.Context) bool {
	b.endRuns()
	for {
		unsent := slices.IndexFunc(b.runs, func(r *run) bool { return r.t.failed() || !r.t.plan.AllAsked() })
		if unsent < 0 {
			return true
		}
		if r := b.runs[unsent]; r.t.failed() || r.t.wait(ctx, b.f.life, time.Time{}) != nil {
			return false
		}
	}
}

// forgetRun removes the first run, whose transfer is over.
func (b *WriteBehind) forgetRun() {
	r := b.runs[0]
	if r.t.failed() {
		b.whole = min(b.whole, r.t.plan.Contiguous())
		_ = b.noteFailure(r.failure())
	}
	r.t.finish()
	r.drop()
	b.runs = append(b.runs[:0], b.runs[1:]...)
}

// A run is a contiguous range of a file that is written behind. New data is added at its end.
type run struct {
	b     *WriteBehind
	t     *transfer
	start int64

	// Guarded by mu:
	end      int64
	segments []*segment // the unconfirmed data, in the order of offsets
	whole    bool       // the run gets no more data, and is sent only when an operation needs it on the server: see Hold
}

func (r *run) ready() bool { return true }

func (r *run) granted(g grant) {
	i := 0
	for r.segments[i].end() <= g.Offset {
		i++
	}
	if s := r.segments[i]; s.off == g.Offset && s.n == g.Len && s.writing == 0 {
		s.asked = true
		s.writing++
		g.send(r.t, s.buffer.Bytes, s.n, s)
		return
	}
	// Copy the data: it is in several short segments, or in what remains of segments whose session
	// was lost.
	b := NewBuffer(WriteHead + g.Len)
	n := 0
	for ; n < g.Len; i++ {
		s := r.segments[i]
		s.asked = true
		from := int(g.Offset + int64(n) - s.off)
		n += copy(b.Bytes[WriteHead+n:WriteHead+g.Len], s.buffer.Bytes[WriteHead+from:WriteHead+s.n])
	}
	g.send(r.t, b.Bytes, n, b)
}

func (r *run) changed() {
	sure := r.t.plan.Contiguous()
	n := 0
	for n < len(r.segments) && r.segments[n].asked && r.segments[n].end() <= sure {
		r.segments[n].done = true
		r.segments[n].release()
		n++
	}
	if n > 0 {
		r.segments = append(r.segments[:0], r.segments[n:]...)
	}
	r.t.notify()
}

// drop frees the data that is not confirmed.
func (r *run) drop() {
	for _, s := range r.segments {
		s.done = true
		s.release()
	}
	r.segments = nil
}

// idle reports whether a run has nothing left to send, no request in flight and no error.
func (r *run) idle() bool {
	return r.t.err == nil && len(r.segments) == 0 && r.t.plan.Outstanding() == 0
}

// failure returns the error of a run that cannot continue, as a [*Failure].
func (r *run) failure() error {
	local, err := r.t.failure()
	return &Failure{r.t.plan.Contiguous(), local, err}
}

// add appends the beginning of p to a run: as much as fits into the last segment, but at most
// maxCopy bytes. It returns the number of bytes. It locks mu.
func (r *run) add(p []byte) (n int, err error) {
	m := r.b.f.mux
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := r.tail(len(p))
	if err != nil {
		return 0, err
	}
	n = copy(s.buffer.Bytes[WriteHead+s.n:WriteHead+s.room], p[:min(len(p), maxCopy)])
	r.grow(s, n, n == len(p))
	return n, nil
}

// grow counts n more bytes in the segment s. If flush is set, the segment should not wait for more
// data: it is sent at once if no other data of the run is in flight.
func (r *run) grow(s *segment, n int, flush bool) {
	s.n += n
	r.end += int64(n)
	r.t.plan.Limit(r.end)
	if !r.whole && (s.n == s.room || flush && r.t.plan.Outstanding() == 0) {
		r.t.advance(time.Now())
	}
}

// tail returns the last segment of a run if that has room. Otherwise it waits for memory, and
// returns a new segment for n more bytes. It unlocks mu while it waits.
func (r *run) tail(n int) (*segment, error) {
	b := r.b
	m := b.f.mux
	for {
		if r.t.failed() {
			return nil, r.failure()
		}
		if i := len(r.segments); i > 0 && !r.segments[i-1].asked && r.segments[i-1].n < r.segments[i-1].room {
			return r.segments[i-1], nil
		}
		// A single short write takes little memory, and a long run is sent in large requests.
		want := min(m.Server.WriteChunk, max(n, int(min(r.end-r.start, math.MaxInt32))))
		buf := NewBuffer(WriteHead + want)
		if size := int64(len(buf.Bytes)); b.use.mayHold(size, int64(m.config.Memory), int64(m.link.Window()+2*m.Server.WriteChunk)) {
			b.use.hold(1, size)
			s := m.buffers.newSegment()
			*s = segment{use: &b.use, off: r.end, room: min(m.Server.WriteChunk, len(buf.Bytes)-WriteHead), buffer: buf}
			r.segments = append(r.segments, s)
			return s, nil
		}
		buf.Free()
		for _, other := range b.runs { // send the data of all runs, to free its memory
			other.t.plan.Flush()
			other.t.ask(time.Now())
		}
		m.transfers.grantRoom(time.Now())
		if err := r.t.wait(b.f.life, b.f.life, time.Time{}); err != nil {
			return nil, &Failure{r.t.plan.Contiguous(), true, err}
		}
	}
}

// readFrom reads once from src, at most n bytes, and adds them to the end of a run, which is at
// pos. It locks mu, and unlocks it while it reads.
func (r *run) readFrom(src io.Reader, pos int64, n int) (int, error) {
	mu := &r.b.f.mux.mu
	mu.Lock()
	defer mu.Unlock()
	s, err := r.tail(n)
	if err != nil {
		return 0, r.b.noteFailure(err)
	}
	to := s.buffer.Bytes[WriteHead+s.n : WriteHead+s.room]
	s.writing++ // keeps the buffer from being released
	mu.Unlock()
	n, err = src.Read(to)
	to = to[:min(max(n, 0), len(to))]
	if err != nil && err != io.EOF {
		err = &Failure{pos + int64(len(to)), true, err}
	}
	mu.Lock()
	if s.asked {
		// The segment was sent meanwhile, without these bytes.
		mu.Unlock()
		for n = 0; n < len(to); {
			some, e := r.add(to[n:])
			if n += some; e != nil {
				err = r.b.noteFailure(e)
				break
			}
		}
		mu.Lock()
		s.writing--
		s.release()
		return n, err
	}
	s.writing--
	r.grow(s, len(to), true)
	return len(to), err
}
