package tftp

import (
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/internal/protocol"
	"github.com/haul-project/haul/tftp/transfer"
)

// A writing is a transfer begun by a write request (WRQ): the peer writes a file.
type writing struct {
	session
	receiver  protocol.Receiver
	buffer    fileio.WriteBuffer
	reserved  int64     // bytes of memory promised for buffer, but not taken yet
	ringCost  int64     // bytes of memory taken for buffer
	heldUntil time.Time // the next ACK waits until this time, to keep to a rate; zero if it does not wait

	// While a worker does a job, it owns these fields.

	upload store.Upload
	stored string // name of the file in the store, if it differs from the name that the client sent
}

// spareWritings holds unused writings of a shard.
type spareWritings []*writing

// take returns a writing ready for use.
func (p *spareWritings) take() *writing {
	if n := len(*p); n > 0 {
		w := (*p)[n-1]
		*p = (*p)[:n-1]
		return w
	}
	w := &writing{}
	w.side, w.machine = w, &w.receiver
	return w
}

// prepare initializes a writing for a request.
func (w *writing) prepare(now time.Time, q Request) {
	// The loop sets `published`, not the worker, because the loop may describe the request while
	// the worker runs.
	q.published = new(store.Published)
	w.begin(now, q, receivedBucket)
}

func (w *writing) ready() bool { return true }

func (w *writing) agree(now time.Time) {
	agreed := protocol.Agree(w.limits(), w.request.Request, -1)
	// An upload gets only a share of the memory that is neither used nor promised, so that large
	// requests leave room for other transfers.
	memory := &w.shard.memory
	agreed.Window = min(agreed.Window, blocksIn(min(maxWindowBytes, memory.mostForWindow()), agreed))
	w.boundByRate(&agreed)
	w.receiver.Answer(now, w.request.Mode, agreed)
	if name := store.LocationOf(w.upload).Name; name != "" && name != w.request.Name {
		w.stored = name
	}
	memory.reserve(&w.reserved, int64(w.leastRing()))
}

// boundByRate reduces the window, so that at the transfer's share of the rates, the data of a
// window takes at most maxHold.
func (w *writing) boundByRate(agreed *transfer.Options) {
	if agreed.Window > 1 {
		block := int64(max(agreed.BlockSize, transfer.DefaultBlockSize))
		agreed.Window = int(min(int64(agreed.Window), max(1, w.throttle.share(1)/block)))
	}
}

func (w *writing) receive(now time.Time, b []byte) {
	c := w.receiver.Handle(now, b)
	w.noteAnswer(now, w.receiver.Heard())
	if len(c.Data) == 0 && !c.Last {
		return
	}
	if err := w.store(now, c); err != nil {
		w.abort(now, err)
		return
	}
	w.hold(now, len(c.Data))
	if c.Last {
		w.state = storing
	}
	w.acknowledge(now)
}

func (w *writing) checkTimers(now time.Time) {
	w.resume(now)
	w.receiver.Expire(now)
}

func (w *writing) send(time.Time) {}

func (w *writing) continueAfter(now time.Time, done fileio.Job) {
	if done == fileio.FlushJob {
		w.buffer.Free()
		w.acknowledge(now)
	} else {
		w.waits.end(now)
		w.confirm(now)
	}
}

func (w *writing) delivered() bool { return false }

func (w *writing) leave() {}

// shrink frees the memory of an upload that is published and has no job under way.
func (w *writing) shrink() {
	w.shard.memory.release(&w.ringCost)
	w.buffer = w.buffer.Spare(minRing)
}

func (w *writing) settle(time.Time, error) {
	w.shard.memory.release(&w.ringCost)
	w.shard.memory.reserve(&w.reserved, 0)
}

func (w *writing) recycle() {
	sh := w.shard
	var buffer fileio.WriteBuffer
	if len(sh.writings) < maxSpare {
		buffer = w.buffer.Spare(minRing)
	}
	w.session = session{shard: sh, side: w, machine: &w.receiver, state: ended, scheduled: w.scheduled}
	w.heldUntil, w.stored, w.buffer = time.Time{}, "", buffer
	sh.writings = append(sh.writings, w)
}

// size returns the size that the client announced.
func (w *writing) size() int64 {
	if w.request.Offer.HasSize {
		return w.request.Offer.Size
	}
	return -1
}

func (w *writing) moved() int64 { return w.receiver.Received() }

func (w *writing) conclude(t *Transfer) {
	if w.job == fileio.NoJob { // otherwise a worker may be setting these fields
		t.Stored, t.Published = w.stored, w.request.published.OrNil()
	}
}

// store adds a chunk to the write buffer. The buffer's memory is taken only with the first chunk,
// because only that proves that the peer exists.
func (w *writing) store(now time.Time, c protocol.Chunk) error {
	if w.ringCost == 0 {
		w.prove(now, true)
		if err := w.grantRing(); err != nil {
			return err
		}
	}
	if err := fileio.CheckAnnounced(w.request.Offer, w.request.Mode, c, w.receiver.Received()); err != nil {
		return err
	}
	return w.buffer.Put(c, w.receiver.Received())
}

// acknowledge allows the ACK that is due if the write buffer has room for another window, and
// starts writing the buffered data to the store.
func (w *writing) acknowledge(now time.Time) {
	window := int64(max(1, w.receiver.Agreed().Window)) * int64(w.receiver.BlockSize())
	if w.state != storing && w.buffer.Fits(window) {
		w.waits.end(now)
		w.confirm(now)
	} else {
		w.waits.begin(now)
	}
	w.maybeFlush()
}

// maybeFlush passes the buffered data to a worker if it fills half of the ring, or is the rest of
// the file.
func (w *writing) maybeFlush() {
	if w.job != fileio.NoJob {
		return
	}
	if w.state == storing {
		w.buffer.Mark()
		w.submit(fileio.CommitJob)
	} else if w.buffer.IsHalfFull() {
		w.buffer.Mark()
		w.submit(fileio.FlushJob)
	}
}

// leastRing returns the smallest size of the write buffer in bytes: room for two windows, but at
// least minRing.
func (w *writing) leastRing() int {
	return max(2*max(1, w.receiver.Agreed().Window)*w.receiver.BlockSize(), minRing)
}

// grantRing takes the memory for the write buffer. If more than half of the memory is neither used
// nor promised, the buffer gets at least fairRing bytes.
func (w *writing) grantRing() error {
	size := w.leastRing()
	m := &w.shard.memory
	if m.available()-m.pool.promised.Load() > m.pool.limit/2 {
		size = max(size, fairRing)
	}
	m.reserve(&w.reserved, 0)
	if !m.take(&w.ringCost, int64(size)) {
		return errMemory
	}
	w.buffer.Reset(size, w.shard.server.config.MaxUpload, w.request.Mode)
	return nil
}

// hold makes the next ACK wait as long as the rates require for the received bytes.
func (w *writing) hold(now time.Time, received int) {
	if !w.throttle.limited {
		return
	}
	if until := now.Add(w.throttle.charge(now, received)); until.After(w.heldUntil) {
		w.heldUntil = until
	}
}

// confirm allows the ACK, or makes it wait to keep to a rate.
func (w *writing) confirm(now time.Time) {
	if w.heldUntil.After(now) {
		w.shard.timers.set(&w.session, w.heldUntil)
		return
	}
	w.heldUntil = time.Time{}
	w.receiver.Stored(now)
}

// resume allows an ACK that was delayed to keep to a rate.
func (w *writing) resume(now time.Time) {
	switch {
	case w.heldUntil.IsZero():
	case w.state == running:
		w.acknowledge(now)
	case w.state == storing && w.job == fileio.NoJob: // the file is published
		w.confirm(now)
	}
}
