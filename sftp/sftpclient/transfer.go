package sftpclient

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// maxTodo is how many WRITEs a transfer may be granted before it has read the
// data for them. More would take room from others whose sources are faster.
const maxTodo = 4

// minChunk is the least that is asked for at once behind the end of a file.
const minChunk = 4 << 10

// An endpoint is this end of a transfer: where data goes to, or comes from. All of
// it is called under mux.mu.
type endpoint interface {
	// place returns where the data of a READ goes, or nil for a buffer, with
	// which received is called.
	place(q pipeline.Request) []byte

	// received takes n bytes, and the buffer they are in, and sees to it that the
	// plan hears of it.
	received(now time.Time, id uint32, off int64, b *buffer, n int)

	// granted takes a WRITE that may be sent.
	granted(g grant)

	// changed is called when an answer has come, or all has failed.
	changed()
}

// A grant is a WRITE for which there is room.
type grant struct {
	pipeline.Request
	at    handleAt
	asked *asked
	id    uint32 // of asked, as long as it is the same request
}

// A transfer moves one range of one file. Whoever needs it waits on
// notified, and looks how far it is.
type transfer struct {
	mux      *mux
	file     *remoteFile
	write    bool
	endpoint endpoint
	notified chan struct{}

	// All of mux.mu:
	plan   *pipeline.Plan
	queued bool
	gone   bool  // nobody waits for it: what still comes is thrown away
	local  error // what has gone wrong on this side
	err    error // why it cannot go on, other than by its plan
}

// begin begins a transfer. The caller holds mu.
func (m *mux) begin(t *transfer, p pipeline.Config) {
	p.Link = m.link
	p.Chunk = m.server.chunk[0]
	if t.write {
		p.Chunk = m.server.chunk[1]
	} else if p.UntilEOF && p.Size >= 0 {
		// To see that a small file ends where it should, one asks for a little
		// only: what is asked for takes room, even if it is not there.
		p.Chunk = min(p.Chunk, max(int(min(p.Size, math.MaxInt32)), minChunk))
	}
	t.mux, t.plan = m, pipeline.New(p)
	if t.notified == nil {
		t.notified = make(chan struct{}, 1)
	}
	m.transfers[t] = struct{}{}
	t.file.users++
	t.file.spread(1, 0)
	if t.err == nil {
		t.err = t.file.err
	}
	if t.err == nil {
		t.err = m.err
	}
}

// finish forgets a transfer that nobody waits for any more. What is on its way
// is still to be answered, to nobody. The caller holds mu, and calls it once.
func (t *transfer) finish() {
	t.gone = true
	t.plan.Stop(errGone)
	t.file.users--
	t.forget()
}

// forget takes a transfer out of the list once nothing is outstanding.
func (t *transfer) forget() {
	if t.plan.Outstanding() == 0 {
		delete(t.mux.transfers, t)
	}
}

// errGone stops the plan of a transfer that nobody waits for.
var errGone = fmt.Errorf("nobody waits for it")

func (t *transfer) notify() {
	select {
	case t.notified <- struct{}{}:
	default:
	}
}

// fail ends a transfer for want of a way to go on. The caller holds mu.
func (t *transfer) fail(err error) {
	if t.err == nil {
		t.err = err
	}
	t.endpoint.changed()
	t.notify()
}

// localFailed notes that a request has failed on this side. The caller holds mu.
func (t *transfer) localFailed(id uint32, err error) {
	if t.local == nil {
		t.local = err
	}
	t.plan.LocalFailed(id, err)
}

// halt ends a transfer for a reason of this side. The caller holds mu.
func (t *transfer) halt(err error) {
	if t.local == nil {
		t.local = err
	}
	t.plan.Stop(err)
}

// over reports whether nothing more will come. The caller holds mu.
func (t *transfer) over() bool { return t.err != nil || t.plan.Done() }

// failure returns the error of a transfer that is over, and whether it is of
// this side. The caller holds mu.
func (t *transfer) failure() (err error, local bool) {
	remote, here := t.plan.Err()
	switch {
	case here != nil && t.local != nil:
		return t.local, true
	case remote != nil:
		return remote, false
	}
	return plain(t.err), false
}

// changed goes on after an answer, or when there is more to ask for. The caller
// holds mu.
func (t *transfer) changed(now time.Time) {
	if t.gone {
		t.forget()
	} else {
		t.endpoint.changed()
		t.ask(now)
		t.spread()
	}
	t.mux.serve(now)
}

// spread gets more lanes for a transfer that has use for them. The caller holds
// mu.
func (t *transfer) spread() {
	if t.over() {
		return
	}
	lanes, left := t.plan.Lanes(), t.plan.Left()
	t.file.spread(lanes, t.mux.pool.even(lanes, left))
	if t.file.widens() {
		t.mux.grow(lanes, left)
	}
}

// ask puts a transfer into the queue for room. The caller holds mu.
func (t *transfer) ask(now time.Time) {
	if !t.queued && !t.gone && !t.over() {
		t.queued = true
		t.mux.queue.push(t)
	}
}

// serve gives what room there is to those who ask for it, one request each in
// turn. The caller holds mu.
func (m *mux) serve(now time.Time) {
	for refused := 0; refused < m.queue.len(); {
		t, _ := m.queue.pop()
		t.queued = false
		if t.gone || t.over() {
			continue
		}
		l, ok := t.next(now)
		switch {
		case ok:
			refused = 0
			t.ask(now)
		case l != nil && m.full(l, t.plan.Chunk()):
			refused++
			t.ask(now)
		default:
			// It wants nothing now, and asks again when that changes.
		}
	}
}

// full reports whether it may be for want of room that a transfer got nothing
// on a lane. The caller holds mu.
func (m *mux) full(l *lane, chunk int) bool {
	out := m.pool.outstanding()
	return out > 0 && out+chunk > m.link.Window() ||
		m.link.Outstanding(l.n)+chunk > pipeline.DefaultLaneBytes ||
		m.link.Full()
}

// next asks for the next range, if there is room, on the lane which has the
// least to do. It returns that lane, or nil if the file is open on none. The
// caller holds mu.
func (t *transfer) next(now time.Time) (*lane, bool) {
	h, ok := t.file.idlest(t.plan.Chunk())
	if !ok {
		t.file.spread(1, 0)
		return nil, false
	}
	return h.lane, t.nextOn(now, h)
}

func (t *transfer) nextOn(now time.Time, h handleAt) bool {
	if f, ok := t.endpoint.(*fill); ok && len(f.todo) >= maxTodo {
		return false
	}
	q, ok := t.plan.Next(now, h.lane.n)
	if !ok {
		return false
	}
	a := t.mux.table.add(h.lane, q.ID)
	a.transfer, a.off, a.n = t, q.Offset, q.Len
	t.mux.table.data++
	if t.write {
		t.file.reach = max(t.file.reach, q.Offset+int64(q.Len))
		t.endpoint.granted(grant{q, h, a, a.id})
		return true
	}
	a.to, a.sent = t.endpoint.place(q), true
	h.lane.expect(false)
	h.lane.text = wire.AppendRead(h.lane.text, a.id, h.handle, q.Offset, uint32(q.Len))
	h.lane.due.Signal()
	return true
}

// late asks again for what a lane is late with, where another has room. The
// caller holds mu.
func (t *transfer) late(now time.Time) {
	for _, h := range t.file.handles {
		for t.nextOn(now, h) {
		}
	}
}

// send sends the WRITE of a grant. data is n bytes in front of which there is
// room for the header: it begins at b[writeHead]. The caller holds mu.
func (g grant) send(b []byte, n int, o outgoing) {
	at := writeHead - wire.WriteHeaderSize(g.at.handle)
	wire.AppendWriteHeader(b[at:at:writeHead], g.asked.id, g.at.handle, g.Offset, n)
	o.b = b[at : writeHead+n]
	g.asked.n, g.asked.sent = n, true
	g.at.lane.expect(false)
	g.at.lane.push(o)
}

// stands reports whether a grant is still good: it is not if its lane has ended.
// The caller holds mu.
func (g grant) stands(t *transfer) bool { return t.mux.table.find(g.id) == g.asked }

// withdraw takes back a grant for which there is no data; the plan is still to
// be told. The caller holds mu.
func (g grant) withdraw(t *transfer) { t.mux.table.remove(g.asked) }

// wait waits until something has changed. ctx ends the wait, and so does life,
// with an error.
func (t *transfer) wait(ctx, life context.Context, until time.Time) error {
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

// contextError returns the error of the first context that has ended, or nil. Where there is
// always something to do, as on a disk slower than the network, nobody ever waits, and
// wait does not tell.
func contextError(ctx, life context.Context) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case life.Err() != nil:
		return context.Cause(life)
	}
	return nil
}

// laneGone is called when a lane has ended, whose ranges the plan has back. The
// caller holds mu.
func (t *transfer) laneGone(l *lane) {
	t.file.laneGone(l)
	if t.gone {
		t.forget()
		return
	}
	t.endpoint.changed()
	t.notify()
	t.ask(time.Now())
}

// A TransferError says where a transfer came to its end too early.
type TransferError struct {
	Op     string // "read" or "write"
	Name   string // of the file on the server
	Offset int64  // up to here, all that was asked for has moved
	Local  bool   // the error is of this side: of the reader or the writer given, or of the context
	Err    error
}

// Error says what was attempted, on which file, how far it came and why not
// further.
func (e *TransferError) Error() string {
	where := "server: "
	switch {
	case e.Local:
		where = "local side: "
	case isStatus(e.Err):
		where = "" // it says so itself
	}
	return fmt.Sprintf("%s %s: at byte %d: %s%v", e.Op, e.Name, e.Offset, where, e.Err)
}

// Unwrap returns the reason.
func (e *TransferError) Unwrap() error { return e.Err }
