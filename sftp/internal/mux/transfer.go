package mux

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// minChunk is the least that is asked for at once behind the end of a file.
const minChunk = 4 << 10

// A Sink is where the data of READs goes to. All of it is called under mux.mu.
type Sink interface {
	// Place returns where the data of a READ goes, or nil for a buffer, with
	// which received is called.
	Place(q pipeline.Request) []byte

	// Received takes n bytes, and the buffer they are in. It has to report them to
	// the plan.
	Received(now time.Time, id uint32, off int64, b *Buffer, n int)
}

// A Source is where the data of WRITEs comes from. All of it is called under mux.mu.
type Source interface {
	// Ready reports whether another WRITE may be granted.
	Ready() bool

	// Granted takes a WRITE that may be sent.
	Granted(g Grant)

	// Changed is called when an answer has come, or all has failed.
	Changed()
}

// A Grant is a WRITE for which there is room.
type Grant struct {
	pipeline.Request
	at    Handle
	asked *request
	id    uint32 // of asked, as long as it is the same request
}

// A Transfer moves one range of one file. The goroutine that needs it waits on
// Notified, and then checks how far it is.
type Transfer struct {
	mux      *Mux
	File     *File
	Sink     Sink   // one of these two
	Source   Source //
	Notified chan struct{}

	// All of mux.mu:
	Plan   *pipeline.Plan
	queued bool
	gone   bool  // it was abandoned: what still comes is dropped
	local  error // what has gone wrong on this side
	Err    error // why it cannot continue, other than by its plan
}

// Begin begins a transfer. The caller holds mu.
func (m *Mux) Begin(t *Transfer, p pipeline.Config) {
	p.Link = m.link
	p.Chunk = m.Server.ReadChunk
	if t.writes() {
		p.Chunk = m.Server.WriteChunk
	} else if p.UntilEOF && p.Size >= 0 {
		// To see that a small file ends where it should, one asks for a little
		// only: what is asked for takes room, even if it is not there.
		p.Chunk = min(p.Chunk, max(int(min(p.Size, math.MaxInt32)), minChunk))
	}
	t.mux, t.Plan = m, pipeline.New(p)
	if t.Notified == nil {
		t.Notified = make(chan struct{}, 1)
	}
	m.transfers[t] = struct{}{}
	m.countReads(t, 1)
	t.File.users++
	t.File.spread(1, 0)
	if t.Err == nil {
		t.Err = t.File.err
	}
	if t.Err == nil {
		t.Err = m.err
	}
}

// Finish forgets a transfer. Answers to what is under way are dropped when they come.
// The caller holds mu, and calls it once.
func (t *Transfer) Finish() {
	t.gone = true
	t.Plan.Stop(ErrAbandoned)
	t.File.users--
	t.forget()
}

// forget takes a transfer out of the list once nothing is outstanding.
func (t *Transfer) forget() {
	if _, ok := t.mux.transfers[t]; ok && t.Plan.Outstanding() == 0 {
		delete(t.mux.transfers, t)
		t.mux.countReads(t, -1)
	}
}

// countReads counts a transfer that reads, or forgets it with n = -1. The caller holds mu.
func (m *Mux) countReads(t *Transfer, n int) {
	if !t.writes() {
		m.reads += n
		m.pool.setFloor(m.reads)
	}
}

// ErrAbandoned stops the plan of a transfer whose result is not needed.
var ErrAbandoned = errors.New("transfer abandoned")

// Notify wakes the goroutine that waits for the transfer.
func (t *Transfer) Notify() {
	select {
	case t.Notified <- struct{}{}:
	default:
	}
}

// fail ends a transfer that cannot continue. The caller holds mu.
func (t *Transfer) fail(err error) {
	if t.Err == nil {
		t.Err = err
	}
	t.answered()
}

// writes reports whether data goes to the server.
func (t *Transfer) writes() bool { return t.Source != nil }

// answered lets this end of the transfer look what has changed. The caller holds mu.
func (t *Transfer) answered() {
	if t.Source != nil {
		t.Source.Changed()
	}
	if t.Over() {
		t.Notify()
	}
}

// localFailed notes that a request has failed on this side. The caller holds mu.
func (t *Transfer) localFailed(id uint32, err error) {
	if t.local == nil {
		t.local = err
	}
	t.Plan.LocalFailed(id, err)
}

// Halt ends a transfer for a reason of this side. The caller holds mu.
func (t *Transfer) Halt(err error) {
	if t.local == nil {
		t.local = err
	}
	t.Plan.Stop(err)
}

// Over reports whether nothing more will come. The caller holds mu.
func (t *Transfer) Over() bool { return t.Err != nil || t.Plan.Done() }

// Failure returns the error of a transfer that is over, and whether it is of
// this side. The caller holds mu.
func (t *Transfer) Failure() (local bool, err error) {
	remote, here := t.Plan.Err()
	switch {
	case here != nil && t.local != nil:
		return true, t.local
	case remote != nil:
		return false, remote
	}
	return false, Plain(t.Err)
}

// changed continues after an answer, or when there is more to ask for. The caller
// holds mu.
func (t *Transfer) changed(now time.Time) {
	if t.gone {
		t.forget()
		t.mux.GrantRoom(now)
		return
	}
	t.answered()
	t.Advance(now)
}

// Advance asks for room, and for more lanes if they help, and lets all transfers use
// what room there is. The caller holds mu.
func (t *Transfer) Advance(now time.Time) {
	t.Ask(now)
	t.spread()
	t.mux.GrantRoom(now)
}

// spread gets more lanes for a transfer that has use for them. The caller holds
// mu.
func (t *Transfer) spread() {
	if t.Over() {
		return
	}
	lanes, left := t.Plan.Lanes(), t.Plan.Left()
	t.File.spread(lanes, t.mux.pool.even(lanes, left))
	if t.File.widens() {
		t.mux.grow(lanes, left)
	}
}

// Ask puts a transfer into the queue for room. The caller holds mu.
func (t *Transfer) Ask(now time.Time) {
	if !t.queued && !t.gone && !t.Over() {
		t.queued = true
		t.mux.queue.Push(t)
	}
}

// GrantRoom gives what room there is to the transfers that ask for it, one request each in
// turn. The caller holds mu.
func (m *Mux) GrantRoom(now time.Time) {
	for refused := 0; refused < m.queue.Len(); {
		t, _ := m.queue.Pop()
		t.queued = false
		if t.gone || t.Over() {
			continue
		}
		l, ok := t.next(now)
		switch {
		case ok:
			refused = 0
			t.Ask(now)
		case l != nil && m.full(l, t.Plan.Chunk()):
			refused++
			t.Ask(now)
		default:
			// It needs nothing now, and asks again when that changes.
		}
	}
}

// full reports whether it may be for want of room that a transfer got nothing
// on a lane. The caller holds mu.
func (m *Mux) full(l *Lane, chunk int) bool {
	out := m.pool.outstanding()
	return out > 0 && out+chunk > m.link.Window() ||
		m.link.Outstanding(l.n)+chunk > pipeline.DefaultLaneBytes ||
		m.link.Full()
}

// next asks for the next range, if there is room, on the lane which has the
// least to do. It returns that lane, or nil if the file is open on none. The
// caller holds mu.
func (t *Transfer) next(now time.Time) (*Lane, bool) {
	h, ok := t.File.idlest(t.Plan.Chunk())
	if !ok {
		t.File.spread(1, 0)
		return nil, false
	}
	return h.Lane, t.nextOn(now, h)
}

func (t *Transfer) nextOn(now time.Time, h Handle) bool {
	if t.Source != nil && !t.Source.Ready() {
		return false
	}
	q, ok := t.Plan.Next(now, h.Lane.n)
	if !ok {
		return false
	}
	a := t.mux.table.add(h.Lane, q.ID)
	a.transfer, a.off, a.n = t, q.Offset, q.Len
	t.mux.table.data++
	if t.Source != nil {
		t.File.reach = max(t.File.reach, q.Offset+int64(q.Len))
		t.Source.Granted(Grant{q, h, a, a.id})
		return true
	}
	a.to, a.sent = t.Sink.Place(q), true
	h.Lane.expect(false)
	h.Lane.text = wire.AppendRead(h.Lane.text, a.id, h.Handle, q.Offset, uint32(q.Len))
	h.Lane.due.Signal()
	return true
}

// late asks again for what a lane is late with, where another has room. The
// caller holds mu.
func (t *Transfer) late(now time.Time) {
	for _, h := range t.File.handles {
		for t.nextOn(now, h) {
		}
	}
}

// Send sends the WRITE of a grant. data is n bytes in front of which there is
// room for the header: it begins at b[writeHead]. in has the memory. The caller
// holds mu.
func (g Grant) Send(b []byte, n int, in Memory) {
	at := WriteHead - wire.WriteHeaderSize(g.at.Handle)
	wire.AppendWriteHeader(b[at:at:WriteHead], g.asked.id, g.at.Handle, g.Offset, n)
	g.asked.n, g.asked.sent = n, true
	g.at.Lane.mux.link.Sent(g.Request.ID)
	g.at.Lane.expect(false)
	g.at.Lane.push(outgoing{b[at : WriteHead+n], in})
}

// stands reports whether a grant is still good: it is not if its lane has ended.
// The caller holds mu.
func (g Grant) stands(t *Transfer) bool { return t.mux.table.find(g.id) == g.asked }

// withdraw takes back a grant for which there is no data; the caller reports
// that to the plan. The caller holds mu.
func (g Grant) withdraw(t *Transfer) { t.mux.table.remove(g.asked) }

// Wait waits until something has changed, or until a time that is not zero. ctx ends the
// wait, and so does life, with an error. The caller holds mu, which is free meanwhile.
func (t *Transfer) Wait(ctx, life context.Context, until time.Time) error {
	t.mux.mu.Unlock()
	defer t.mux.mu.Lock()
	var alarm <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-t.Notified:
		return nil
	case <-alarm:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-life.Done():
		return context.Cause(life)
	}
}

// spreadAll lets all transfers use a lane that has been opened. The caller holds mu.
func (m *Mux) spreadAll() {
	for t := range m.transfers {
		t.File.spread(t.Plan.Lanes(), m.pool.even(t.Plan.Lanes(), t.Plan.Left()))
	}
}

// violated notes for all files in use that the server broke the protocol on a lane.
// The caller holds mu.
func (m *Mux) violated(l *Lane) {
	for t := range m.transfers {
		t.File.broken(l)
	}
}

// lostLane lets all transfers ask again for what was under way on a lane that has
// ended. The caller holds mu.
func (m *Mux) lostLane(l *Lane) {
	for t := range m.transfers {
		t.laneGone(l)
	}
}

// failTransfers fails all transfers that have no lane, or all if the mux has failed.
// The caller holds mu.
func (m *Mux) failTransfers(err error) {
	for t := range m.transfers {
		if len(t.File.handles) == 0 || m.err != nil {
			t.File.fail(err)
			t.fail(err)
		}
	}
}

// contextError returns the error of the first context that has ended, or nil. Where there is
// always something to do, as on a disk slower than the network, Wait is never called, and
// does not report it.
func contextError(ctx, life context.Context) error {
	return cmp.Or(context.Cause(ctx), context.Cause(life))
}

// laneGone is called when a lane has ended, whose ranges the plan has back. The
// caller holds mu.
func (t *Transfer) laneGone(l *Lane) {
	t.File.laneGone(l)
	if t.gone {
		t.forget()
		return
	}
	t.answered()
	t.Notify()
	t.Ask(time.Now())
}
