package webclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
)

const (
	// clientBuffer is how many bytes of a body are read and written at once.
	clientBuffer = 256 << 10

	// splitAfter is how long a file is read over one connection before the client considers using
	// more: by then, most files are complete. More connections are worthwhile if the rest would
	// otherwise take at least splitWorth.
	splitAfter = 50 * time.Millisecond
	splitWorth = 250 * time.Millisecond

	// minSplit is the smallest remainder of a file for which more connections are used, in bytes.
	minSplit = 4 << 20

	// A part of a file has as many bytes as one connection transfers in partTime, within bounds.
	// The number of connections is reconsidered at about the same interval. A copy that is killed
	// loses the parts that are still in transfer.
	partTime    = 500 * time.Millisecond
	clientParts = 16 // a file has at least this number of parts, unless they would be smaller than minChunk
	minChunk    = 512 << 10
	maxChunk    = 8 << 20

	// fetchTick is the interval at which a download checks for work if nothing else wakes it.
	fetchTick = 50 * time.Millisecond
)

var chunkBuffers = sync.Pool{New: func() any { return new([clientBuffer]byte) }}

// A download is the state of one call of FetchTo. It begins with one answer, called the stream: the
// answer to Open, or to a request for everything from an offset on. If the stream takes long, it is
// stopped early, and a plan ([pipeline.Plan]) requests the rest part by part and in order, so that
// a copy that is killed has no large gaps. If the stream is lost, a plan also requests the rest.
type download struct {
	f       *remoteFile
	w       io.WriterAt
	off     int64
	began   time.Time
	ctx     context.Context
	cancel  context.CancelCauseFunc
	changed chan struct{}
	work    sync.WaitGroup

	mu        sync.Mutex
	streaming bool  // the stream is being read; guarded by mu
	streamAt  int64 // all bytes from off to streamAt are written; guarded by mu
	// streamEnd is the offset at which the stream stops; MaxInt64 if the size is unknown; guarded
	// by mu.
	streamEnd int64
	link      *pipeline.Link // limits all plans together; nil until there is a part; guarded by mu
	parts     []*fetchPart   // the parts after streamEnd, in order; guarded by mu
	parallel  bool           // several requests at a time are allowed; guarded by mu
	busy      int            // how many requests of plans are under way; guarded by mu
	// shared means that plans' requests share an HTTP/2 connection, because separate connections
	// fail; guarded by mu.
	shared   bool
	brought  bool     // data has arrived in answer to a request of a plan; guarded by mu
	attempts attempts // counts failures in a row; guarded by mu
	losses   int      // number of losses; requests that are lost together count as one; guarded by mu
	// probing means that a request was sent after the last loss, and nothing has arrived for it
	// yet; guarded by mu.
	probing   bool
	notBefore time.Time // the earliest time of the next request; guarded by mu
	err       error     // why the download failed; guarded by mu
	local     bool      // err comes from the writer w; guarded by mu
}

// A fetchPart is a part of the file that a plan requests.
type fetchPart struct {
	start, end int64
	plan       *pipeline.Plan
	dead       bool // the plan was given up: no more of its requests are sent
}

// FetchTo writes the file from off on to w, at the file's offsets, from several goroutines at once.
// It returns how many bytes from off on are complete without a gap.
func (f *remoteFile) FetchTo(ctx context.Context, w io.WriterAt, off int64) (int64, error) {
	x := &download{f: f, w: w, off: off, began: time.Now(), changed: make(chan struct{}, 1), streamAt: off, attempts: attempts{begun: true}}
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	defer x.cancel(nil)
	defer context.AfterFunc(f.ctx, func() { x.cancel(context.Cause(f.ctx)) })()
	if off < 0 {
		return 0, f.c.fail("read", f.name, errors.New("negative offset"))
	}
	size := f.knownSize()
	if size >= 0 && off >= size {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.drop()
		return 0, nil
	}
	stream, err := f.stream(x.ctx, off)
	if err != nil {
		return 0, x.failure(err, false)
	}
	f.mu.Lock()
	guarded := f.info.version.guard() != "" && size >= 0
	x.parallel = guarded && f.ranges == rangesYes && f.c.config.Parts > 0 && !f.single
	f.mu.Unlock()
	if x.streamEnd = size; size < 0 {
		x.streamEnd = math.MaxInt64
	}
	x.start(stream)
	x.run()
	x.cancel(nil)
	x.work.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	moved := x.contiguous() - off
	if x.err != nil {
		return moved, x.failure(x.err, x.local)
	}
	return moved, nil
}

// failure adds the URL and the offset at which the transfer stopped to an error.
func (x *download) failure(err error, local bool) error {
	return &TransferError{Op: "read", URL: x.f.c.URL(x.f.name), Offset: x.contiguous(), Local: local, Err: err}
}

// contiguous returns the offset up to which the file is complete without a gap. The caller holds
// mu, unless no other goroutine has x yet.
func (x *download) contiguous() int64 {
	at := x.streamAt
	if x.streaming && at < x.streamEnd {
		return at
	}
	for _, p := range x.parts {
		if p.start > at {
			break
		}
		if at = p.plan.Contiguous(); at < p.end {
			break
		}
	}
	return at
}

// run sends requests until the download is over.
func (x *download) run() {
	tick := time.NewTicker(fetchTick)
	defer tick.Stop()
	for {
		x.mu.Lock()
		over := x.manage(time.Now())
		x.mu.Unlock()
		if over {
			return
		}
		select {
		case <-x.changed:
		case <-tick.C:
		case <-x.ctx.Done():
			x.fail(context.Cause(x.ctx), false)
		}
	}
}

// notify wakes run after a change.
func (x *download) notify() {
	select {
	case x.changed <- struct{}{}:
	default:
	}
}

// fail ends the download with an error, unless it has failed before.
func (x *download) fail(err error, local bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failLocked(err, local)
}

func (x *download) failLocked(err error, local bool) {
	if x.err == nil {
		x.err, x.local = err, local
	}
	x.notify()
}

// manage splits the download if that is worthwhile, and sends the requests that are due. It reports
// whether the download is over. The caller holds mu.
func (x *download) manage(now time.Time) (over bool) {
	if x.err != nil {
		return true
	}
	if x.worthSplitting(now) {
		x.split()
	}
	over = !x.streaming && x.busy == 0
	for _, p := range x.parts {
		over = over && p.plan.Done()
		x.request(now, p)
	}
	return over
}

// worthSplitting reports whether more connections may speed up the rest.
func (x *download) worthSplitting(now time.Time) bool {
	took, moved, left := now.Sub(x.began), x.streamAt-x.off, x.streamEnd-x.streamAt
	if !x.parallel || !x.streaming || len(x.parts) > 0 || took < splitAfter || left < minSplit {
		return false
	}
	return moved <= 0 || float64(left)/float64(moved)*float64(took) >= float64(splitWorth)
}

// split ends the stream early, and leaves the rest to a plan.
func (x *download) split() {
	end := x.streamEnd
	x.streamEnd = x.streamAt + x.chunk(end-x.streamAt)
	x.addPart(x.streamEnd, end)
}

// chunk returns how many bytes to request at a time if `left` bytes of the file remain.
func (x *download) chunk(left int64) int64 {
	most := min(max(left/clientParts, minChunk), maxChunk)
	took := max(time.Since(x.began), time.Millisecond)
	fair := float64(x.streamAt-x.off) * float64(partTime) / float64(took)
	return min(max(int64(min(fair, maxChunk)), minChunk), most)
}

// addPart adds a part of the file that a plan requests. It must lie before all other parts.
func (x *download) addPart(start, end int64) {
	if x.link == nil {
		chunk, parallel := int(x.chunk(end-start)), 1
		if x.parallel {
			parallel = x.f.c.config.Parts
		}
		x.link = pipeline.NewLink(pipeline.Limits{SessionBytes: chunk, MinBytes: min(2, parallel) * chunk, MaxBytes: parallel * chunk, Sessions: parallel})
	}
	p := &fetchPart{start: start, end: end}
	p.plan = pipeline.New(pipeline.Config{Link: x.link, Offset: start, Size: end - start, Chunk: maxChunk})
	x.parts = append([]*fetchPart{p}, x.parts...)
}

// request sends the requests of a plan that are due now.
func (x *download) request(now time.Time, p *fetchPart) {
	if p.dead || now.Before(x.notBefore) {
		return
	}
	for session := range p.plan.Sessions() {
		if x.link.Outstanding(session) > 0 {
			continue // a connection has one request at a time, because HTTP/1.1 answers one after another
		}
		probe := x.attempts.tries > 0
		if probe && x.probing {
			return // one request at a time is enough to find out whether the server is back
		}
		own := !x.shared && x.f.c.conns.ownOnes()
		conn, ok := x.f.c.conns.tryTake(own)
		if !ok && (x.streaming || x.busy > 0) {
			return // other requests use all connections
		}
		q, due := p.plan.Next(now, session)
		if !due {
			if ok {
				conn.release()
			}
			continue
		}
		x.busy++
		x.probing = x.probing || probe
		x.work.Go(func() { x.part(p, session, q, conn, own, probe) })
	}
}

// part sends one request of a plan, and writes the content of the answer. It uses conn or, if conn
// is nil, waits for a free connection.
func (x *download) part(p *fetchPart, session int, q pipeline.Request, conn *connSlot, own, probe bool) {
	send := func(ctx context.Context, k request) (*response, error) {
		k.conn = conn
		return x.f.c.sendAs(ctx, k)
	}
	x.mu.Lock()
	before := x.losses
	x.mu.Unlock()
	a, err := x.f.askPart(x.ctx, send, q.Offset, q.Offset+int64(q.Len)-1, own)
	var n int64
	local := false
	if err == nil && !a.whole {
		n, local, err = x.copyPart(a)
		a.close()
	}
	if err != nil && conn != nil {
		conn.release()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	defer x.notify()
	x.busy--
	if probe {
		x.probing = false
	}
	if n > 0 {
		x.attempts.moved()
		x.brought = true
		p.plan.Reply(time.Now(), q.ID, int(n)) // the plan requests the rest, if any, again
	} else {
		x.link.SessionLost(session)
	}
	switch {
	case err != nil && p.dead && !local:
	case err == nil && a.whole:
		x.takeWhole(p, a)
	case local:
		x.failLocked(err, true)
	case err != nil && own && !x.brought && (isLoss(err) || isTLS(err)):
		x.shared = true // separate connections use HTTP/1.1, and the server may support only HTTP/2
	case err != nil:
		x.lost(err, before)
	}
}

// copyPart writes the content of an answer to a plan's request. It returns how many bytes it has
// written.
func (x *download) copyPart(a *rangeResponse) (n int64, local bool, err error) {
	buf := chunkBuffers.Get().(*[clientBuffer]byte)
	defer chunkBuffers.Put(buf)
	for at := a.first; at < a.end; {
		got, err := a.Read(buf[:min(clientBuffer, a.end-at)])
		if got > 0 {
			if _, e := x.w.WriteAt(buf[:got], at); e != nil {
				return n, true, e
			}
			at += int64(got)
			n += int64(got)
		}
		if err == io.EOF && at == a.end {
			return n, false, nil
		}
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return n, false, err
		}
	}
	return n, false, checkEnd(a.response)
}

// takeWhole handles an answer to a plan's request that contains the whole file: the server supports
// no ranges after all. The caller holds mu.
func (x *download) takeWhole(p *fetchPart, a *rangeResponse) {
	x.parallel = false
	switch {
	case p.dead || x.err != nil:
		a.close()
	case !x.streaming:
		x.streamAt = x.contiguous()
		x.streamEnd = x.parts[len(x.parts)-1].end
		x.forgetParts()
		x.start(a)
	case len(x.parts) == 1 && p.plan.Stats().Moved == 0:
		// The stream is an answer with the whole file, so it can continue with the rest.
		x.streamEnd = p.end
		x.forgetParts()
		a.close()
	default:
		a.close()
		x.failLocked(fmt.Errorf("%w: it has sent ranges before, and the whole file now", ErrProtocol), false)
	}
}

func (x *download) forgetParts() {
	for _, p := range x.parts {
		p.dead = true
	}
	x.parts = nil
}

// start starts a goroutine that writes the content of the stream a. The caller holds mu, unless no
// other goroutine has x yet.
func (x *download) start(a *rangeResponse) {
	x.streaming = true
	before := x.losses
	x.work.Go(func() {
		local, err := x.copyStream(a)
		a.close()
		x.mu.Lock()
		defer x.mu.Unlock()
		defer x.notify()
		x.streaming = false
		switch {
		case err == nil:
		case local:
			x.failLocked(err, true)
		case !isLoss(err):
			x.failLocked(err, false)
		case x.f.info.version.guard() == "", x.streamEnd == math.MaxInt64:
			x.failLocked(lostUnguarded(err), false)
		default:
			x.addPart(x.streamAt, x.streamEnd)
			x.streamEnd = x.streamAt
			x.lost(err, before)
		}
	})
}

// copyStream writes the content of the stream up to streamEnd, which may change meanwhile.
func (x *download) copyStream(a *rangeResponse) (local bool, err error) {
	buf := chunkBuffers.Get().(*[clientBuffer]byte)
	defer chunkBuffers.Put(buf)
	for at := a.first; ; {
		x.mu.Lock()
		end := x.streamEnd
		x.mu.Unlock()
		if at >= end {
			if a.end >= 0 && end < a.end {
				return false, nil // plans request the rest
			}
			return false, checkEnd(a.response)
		}
		n, err := a.Read(buf[:min(clientBuffer, end-at)])
		x.mu.Lock()
		from := max(at, x.streamAt)
		x.mu.Unlock()
		if at+int64(n) > from {
			if _, e := x.w.WriteAt(buf[from-at:n], from); e != nil {
				return true, e
			}
		}
		at += int64(n)
		x.mu.Lock()
		if at > x.streamAt {
			x.streamAt = at
			x.attempts.moved()
		}
		if err == io.EOF && x.streamEnd == math.MaxInt64 {
			x.streamEnd = at
			x.f.mu.Lock()
			x.f.size = at
			x.f.mu.Unlock()
		}
		end = x.streamEnd
		x.mu.Unlock()
		switch {
		case err == io.EOF && at >= end:
			return false, nil
		case err == io.EOF:
			return false, io.ErrUnexpectedEOF
		case err != nil:
			return false, err
		}
	}
}

// lost records a failed request, and decides whether to send another one. before is the number of
// losses when the request was sent. It shows whether another request was lost since then: requests
// that are lost together count as one loss. Otherwise a server that is unavailable for a moment
// would cost one try per connection. The caller holds mu.
func (x *download) lost(err error, before int) {
	refused, isRefusal := errors.AsType[*StatusError](err)
	if isRefusal {
		if !hasNoTime(refused.Code) {
			x.failLocked(err, false)
			return
		}
		x.link.LimitSessions(max(x.busy, 1)) // the server may accept only this number of requests at a time
	} else if !isLoss(err) {
		x.failLocked(err, false)
		return
	}
	if before != x.losses {
		return
	}
	x.losses++
	var pause time.Duration
	var again bool
	if isRefusal {
		pause, again = x.f.c.againAfterRefusal(&x.attempts, refused.Code, refused.After, refused.After > 0)
	} else {
		pause, again = x.f.c.againAfterLoss(&x.attempts, err)
	}
	if !again {
		x.failLocked(lost(err, x.attempts.tries), false)
		return
	}
	x.notBefore = time.Now().Add(pause)
}
