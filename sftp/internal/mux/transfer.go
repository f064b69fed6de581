package mux

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// minChunk is the least number of bytes to which the requests for a file with a known size are
// shortened: see begin.
const minChunk = 4 << 10

// errAbandoned stops the plan of a transfer whose result is no longer needed.
var errAbandoned = errors.New("transfer abandoned")

// A sink receives the data of READs. Its methods run under mu.
type sink interface {
	// place returns the memory for the data of a READ. If it returns nil, the data is read into a
	// buffer and passed to received.
	place(q pipeline.Request) []byte

	// received is called with a buffer that holds n bytes of data. The sink owns the buffer from
	// then on, and must report the bytes to the plan.
	received(now time.Time, id uint32, off int64, b *Buffer, n int)
}

// A source supplies the data for WRITEs. Its methods run under mu.
type source interface {
	// ready reports whether another WRITE may be granted.
	ready() bool

	// granted is called with the grant for one WRITE.
	granted(g grant)

	// changed is called when the answer to a WRITE has arrived, and when the transfer has failed.
	changed()
}

// A transfer moves one range of one file, according to its plan. The goroutine that needs the
// result waits on the channel `notified`, and then checks how far the transfer is.
type transfer struct {
	all      *transfers
	file     *handleSet
	sink     sink   // set for a download
	source   source // set for an upload
	notified chan struct{}

	// Guarded by mu:
	plan   *pipeline.Plan
	queued bool  // the transfer is in transfers.queue
	gone   bool  // the transfer was abandoned, so answers are dropped
	local  error // the first error on this side, such as that of a reader
	err    error // an error that ended the transfer and that the plan does not know
}

// A grant is the permission to send one WRITE, for which room is reserved.
type grant struct {
	pipeline.Request
	to    Handle
	asked *request
	id    uint32 // value of asked.id at the time of the grant; it differs later if the element was reused
}

// transfers holds the transfers of a mux. It grants them, in turn, room in the window for their
// requests.
type transfers struct {
	*core
	opener *opener
	pool   *pool
	table  *requestTable
	link   *pipeline.Link
	server *Server

	// Guarded by mu:
	list  map[*transfer]struct{}
	queue queue[*transfer] // transfers that may have a request to send
	reads int              // number of transfers that are downloads
}

// begin starts a transfer: it makes the plan, and adds the transfer to the list.
func (ts *transfers) begin(t *transfer, p pipeline.Config) {
	p.Link = ts.link
	p.Chunk = ts.server.ReadChunk
	if t.writes() {
		p.Chunk = ts.server.WriteChunk
	} else if p.UntilEOF && p.Size >= 0 {
		// These requests only check that a small file ends where it should. Keep them small,
		// because requests take room even for bytes that do not exist.
		p.Chunk = min(p.Chunk, max(int(min(p.Size, math.MaxInt32)), minChunk))
	}
	t.all, t.plan = ts, pipeline.New(p)
	if t.notified == nil {
		t.notified = make(chan struct{}, 1)
	}
	ts.list[t] = struct{}{}
	ts.countReads(t, 1)
	t.file.users = append(t.file.users, t)
	t.file.spread(1, 0)
	if t.err == nil {
		t.err = t.file.err
	}
	if t.err == nil {
		t.err = ts.err
	}
}

// finish abandons a transfer, so that late answers are dropped. It must be called exactly once.
func (t *transfer) finish() {
	t.gone = true
	t.plan.Stop(errAbandoned)
	t.file.users = slices.DeleteFunc(t.file.users, func(u fileUser) bool { return u == t })
	t.forget()
}

// forget removes a transfer from the list if none of its requests are outstanding.
func (t *transfer) forget() {
	if _, ok := t.all.list[t]; ok && t.plan.Outstanding() == 0 {
		delete(t.all.list, t)
		t.all.countReads(t, -1)
	}
}

// countReads adds n to the number of downloads, if t is a download.
func (ts *transfers) countReads(t *transfer, n int) {
	if !t.writes() {
		ts.reads += n
		ts.pool.setFloor(ts.reads)
	}
}

// notify wakes the goroutine that waits for the transfer.
func (t *transfer) notify() {
	select {
	case t.notified <- struct{}{}:
	default:
	}
}

// fail ends a transfer with an error of the server's side.
func (t *transfer) fail(err error) {
	if t.gone {
		return
	}
	if t.err == nil {
		t.err = err
	}
	t.answered()
}

// writes reports whether the transfer is an upload.
func (t *transfer) writes() bool { return t.source != nil }

// answered notifies the source, and also the waiting goroutine if the transfer is over.
func (t *transfer) answered() {
	if t.source != nil {
		t.source.changed()
	}
	if t.over() {
		t.notify()
	}
}

// localFailed records that a request has failed on this side, as when data could not be read.
func (t *transfer) localFailed(id uint32, err error) {
	if t.local == nil {
		t.local = err
	}
	t.plan.LocalFailed(id, err)
}

// halt stops a transfer because of an error on this side.
func (t *transfer) halt(err error) {
	if t.local == nil {
		t.local = err
	}
	t.plan.Stop(err)
}

// over reports whether the transfer needs no more requests and no more answers.
func (t *transfer) over() bool { return t.err != nil || t.plan.Done() }

// failed reports whether the transfer cannot continue.
func (t *transfer) failed() bool {
	remote, local := t.plan.Err()
	return remote != nil || local != nil || t.err != nil
}

// failure returns the error of a transfer that is over. The result local reports whether the error
// comes from this side.
func (t *transfer) failure() (local bool, err error) {
	remote, here := t.plan.Err()
	switch {
	case here != nil && t.local != nil:
		return true, t.local
	case remote != nil:
		return false, remote
	}
	return false, Plain(t.err)
}

// changed continues the transfer after an answer, or when more bytes may be requested.
func (t *transfer) changed(now time.Time) {
	if t.gone {
		t.forget()
		t.grantRoom(now)
		return
	}
	t.answered()
	t.advance(now)
}

// advance queues the transfer for room, opens more sessions if they help, and lets all transfers
// use the available room.
func (t *transfer) advance(now time.Time) {
	t.ask(now)
	t.spread()
	t.grantRoom(now)
}

// spread opens the file in more sessions, and begins to open more sessions, if that helps the
// transfer.
func (t *transfer) spread() {
	if t.over() {
		return
	}
	want, left := t.plan.Sessions(), t.plan.Left()
	t.file.spread(want, t.all.pool.even(want, left))
	if t.file.widens() {
		t.all.opener.grow(want, left)
	}
}

// ask puts a transfer into the queue for room in the window.
func (t *transfer) ask(time.Time) {
	if !t.queued && !t.gone && !t.over() {
		t.queued = true
		t.all.queue.push(t)
	}
}

// grantRoom lets all queued transfers use the available room in the window.
func (t *transfer) grantRoom(now time.Time) { t.all.grantRoom(now) }

// grantRoom divides the available room among the queued transfers, which take turns. Each turn
// grants one request.
func (ts *transfers) grantRoom(now time.Time) {
	for refused := 0; refused < ts.queue.length(); {
		t, _ := ts.queue.pop()
		t.queued = false
		if t.gone || t.over() {
			continue
		}
		s, ok := t.next(now)
		switch {
		case ok:
			refused = 0
			t.ask(now)
		case s != nil && ts.isFull(s, t.plan.Chunk()):
			refused++
			t.ask(now)
		default:
			// The transfer has nothing to request now. It queues itself again when that changes.
		}
	}
}

// isFull reports whether lack of room may be the reason why a transfer could not send a request of
// `chunk` bytes in the session s.
func (ts *transfers) isFull(s *Session, chunk int) bool {
	out := ts.pool.outstanding()
	return out > 0 && out+chunk > ts.link.Window() ||
		ts.link.Outstanding(s.n)+chunk > pipeline.DefaultSessionBytes ||
		ts.link.Full()
}

// next requests the next range in the least busy session, if there is room. It returns that
// session, or nil if the file is open in no session. The result ok reports whether it sent or
// granted a request.
func (t *transfer) next(now time.Time) (*Session, bool) {
	h, ok := t.file.idlest(t.plan.Chunk())
	if !ok {
		t.file.spread(1, 0)
		return nil, false
	}
	return h.Session, t.nextIn(now, h) != nil
}

// nextIn requests the next range with the handle h, and returns the request. It returns nil if
// there is nothing to request, or no room.
func (t *transfer) nextIn(now time.Time, h Handle) *request {
	if t.source != nil && !t.source.ready() {
		return nil
	}
	q, ok := t.plan.Next(now, h.Session.n)
	if !ok {
		return nil
	}
	a := t.all.table.add(h.Session, q.ID, t)
	a.off, a.n = q.Offset, q.Len
	if t.source != nil {
		t.file.reach = max(t.file.reach, q.Offset+int64(q.Len))
		t.source.granted(grant{q, h, a, a.id})
		return a
	}
	a.to, a.sent = t.sink.place(q), true
	h.Session.expect(false)
	h.Session.text = wire.AppendRead(h.Session.text, a.id, h.Handle, q.Offset, uint32(q.Len))
	h.Session.due.Signal()
	return a
}

// repeatLate repeats, in other sessions, the requests whose answers are late, as far as there is
// room.
func (t *transfer) repeatLate(now time.Time) {
	for _, h := range t.file.handles {
		for t.nextIn(now, h) != nil {
		}
	}
}

// send sends the WRITE of a grant. Its n bytes of data begin at b[WriteHead], and send puts the
// header right before them. The memory `in` holds b. Its method written is called when b has been
// sent.
func (g grant) send(t *transfer, b []byte, n int, in memory) {
	at := WriteHead - wire.WriteHeaderSize(g.to.Handle)
	wire.AppendWriteHeader(b[at:at:WriteHead], g.asked.id, g.to.Handle, g.Offset, n)
	g.asked.n, g.asked.sent = n, true
	t.all.link.Sent(g.Request.ID)
	g.to.Session.expect(false)
	g.to.Session.push(outgoing{b[at : WriteHead+n], in})
}

// isValid reports whether the WRITE of a grant may still be sent. It may not be sent after its
// session has ended.
func (g grant) isValid(t *transfer) bool { return t.all.table.find(g.id) == g.asked }

// withdraw removes the request of a grant for which there is no data. The caller must report to the
// plan that the request was not sent.
func (g grant) withdraw(t *transfer) { t.all.table.remove(g.asked) }

// wait waits until notify is called, or until the time `until`, unless that is zero. It returns an
// error if ctx or life has ended. It unlocks mu while it waits.
func (t *transfer) wait(ctx, life context.Context, until time.Time) error {
	t.all.mu.Unlock()
	defer t.all.mu.Lock()
	var alarm <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-t.notified:
		return nil
	case <-alarm:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-life.Done():
		return context.Cause(life)
	}
}

// contextError returns the cause if one of the two contexts has ended, or nil. wait reports this
// too, but a transfer that always has something to do, as with a disk that is slower than the
// network, never calls wait.
func contextError(ctx, life context.Context) error {
	return cmp.Or(context.Cause(ctx), context.Cause(life))
}

// sessionLost does nothing: the link has already returned the ranges to the plan.
func (t *transfer) sessionLost(uint32, error) {}

// sessionLost handles the end of a session: all transfers may now repeat the requests that were in
// flight in it.
func (ts *transfers) sessionLost(s *Session) {
	for t := range ts.list {
		t.file.sessionLost(s)
		if t.gone {
			t.forget()
			continue
		}
		t.answered()
		t.notify()
		t.ask(time.Now())
	}
}

// spreadAll lets all transfers open their files in a new session, if that helps them.
func (ts *transfers) spreadAll() {
	for t := range ts.list {
		t.file.spread(t.plan.Sessions(), ts.pool.even(t.plan.Sessions(), t.plan.Left()))
	}
}

// violated records, for all files in use, that the server violated the protocol in a session.
func (ts *transfers) violated(s *Session) {
	for t := range ts.list {
		t.file.violated(s)
	}
}

// failAll fails the transfers whose file is open in no session. If the mux has failed, it fails all
// transfers.
func (ts *transfers) failAll(err error) {
	for t := range ts.list {
		if len(t.file.handles) == 0 || ts.err != nil {
			t.file.fail(err)
			t.fail(err)
		}
	}
}

// neediest returns the transfer with the most bytes left among those that could use a further
// session on the connection conn. It returns nil if there is no such transfer.
func (ts *transfers) neediest(conn *connection) (best *transfer) {
	for t := range ts.list {
		f := t.file
		if t.gone || t.over() || !f.widens() || f.closed || f.err != nil || len(f.handles) == 0 {
			continue
		}
		want, left := t.plan.Sessions(), t.plan.Left()
		if len(f.handles)+len(f.opening) >= want && f.countOn(conn) >= ts.pool.even(want, left) {
			continue
		}
		if best == nil || left > best.plan.Left() {
			best = t
		}
	}
	return best
}
