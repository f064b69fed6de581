package tftp

import (
	"fmt"
	"io"
	"time"
)

// submit gives x to a worker. openJob opens the place that a download goes to, and
// closeJob discards a download that failed.
func (x *poolTransfer) submit(what job) {
	p := x.loop.pool
	x.job = what
	p.openWorkers.Do(p.workers.open)
	p.workers.add(x)
}

// work does the job. It is for a worker.
func (x *poolTransfer) work() {
	x.jobErr = nil
	defer func() {
		if p := recover(); p != nil {
			x.jobErr = crashed(p)
		}
	}()
	switch x.job {
	case scanJob:
		x.jobErr = x.scan()
	case openJob:
		x.upload, x.jobErr = x.request.create(x.serverSize)
	case flushJob:
		x.jobErr = x.buffer.flush(x.upload, x.flush.from, x.flush.to)
	case commitJob:
		x.jobErr = x.commit()
	case fetchJob:
		x.jobErr = x.fetchNow()
	case closeJob:
		u := x.upload
		x.upload = nil
		_ = u.Close() // discards
	}
}

// handBack returns x to its loop.
func (x *poolTransfer) handBack() { x.loop.workDone(x) }

func (x *poolTransfer) scan() error {
	text, err := openText(io.NewSectionReader(x.reader, 0, x.size), nil)
	if err != nil {
		return err
	}
	x.reader, x.size = text, text.size()
	return nil
}

// commit publishes a file that is whole.
func (x *poolTransfer) commit() error {
	if err := x.buffer.flush(x.upload, x.flush.from, x.flush.to); err != nil {
		return err
	}
	if err := x.upload.Truncate(x.flush.to); err != nil {
		return err
	}
	if err := x.upload.Commit(); err != nil {
		return err
	}
	u := x.upload
	x.upload = nil
	return u.Close()
}

// fetchNow reads the blocks of a run, or at least the first of them.
func (x *poolTransfer) fetchNow() error {
	f := &x.fetch
	block := int64(x.sender.BlockSize())
	need := min(block, x.run.Bytes)
	f.off, f.want = x.run.Offset, int(max(need, min(max(x.run.Bytes, minFetch), maxFetch)))
	if cap(f.buf) < f.want {
		f.buf = make([]byte, f.want)
	}
	var err error
	f.n, err = x.reader.ReadAt(f.buf[:f.want], f.off)
	switch {
	case f.n < 0 || f.n > f.want:
		f.n, err = 0, fmt.Errorf("file says that it read %d of %d bytes", f.n, f.want)
	case int64(f.n) >= need:
		return nil
	case err == io.EOF:
		return errChanged
	case err == nil:
		return io.ErrNoProgress // a fault of the file's: see io.ReaderAt
	}
	return err
}

// prepare opens the place a download goes to, once the server has agreed.
func (x *poolTransfer) prepare() {
	if done, _ := x.receiver.Done(); done || x.opened || x.request.blocks != nil || !x.receiver.Heard() {
		return
	}
	x.opened = true
	window := max(1, x.receiver.Agreed().Window) * x.receiver.BlockSize()
	ring := x.buffer.ring
	if need := max(2*window, clientRing); cap(ring) < need {
		ring = make([]byte, need)
	}
	x.buffer.reset(ring, 0, x.request.target.Mode)
	x.submit(openJob)
}

// acknowledge lets the ACK go that is due if another window has room, and has a worker
// write what has gathered.
func (x *poolTransfer) acknowledge(now time.Time) {
	window := int64(max(1, x.receiver.Agreed().Window)) * int64(x.receiver.BlockSize())
	if !x.last && x.buffer.fits(window) {
		x.receiver.Stored(now)
	}
	if x.job != noJob || x.upload == nil {
		return
	}
	x.flush.from, x.flush.to = x.buffer.flushed, x.buffer.received
	switch {
	case x.last:
		x.submit(commitJob)
	case x.buffer.pending() >= int64(len(x.buffer.ring)/2):
		x.submit(flushJob)
	}
}

// worked takes x back from a worker.
func (x *poolTransfer) worked(now time.Time) {
	what := x.job
	x.job = noJob
	lp := x.loop
	if x.ended {
		lp.reportEnd(now, x)
		return
	}
	switch {
	case x.jobErr != nil && x.request.write:
		x.abort(now, "client cannot read the file", x.jobErr)
	case x.jobErr != nil:
		x.abortStore(x.jobErr)
	case what == scanJob:
		x.sendRequest(now)
		return
	case what == openJob:
		x.acknowledge(now)
	case what == flushJob:
		x.buffer.flushed = x.flush.to
		x.acknowledge(now)
	case what == commitJob:
		x.receiver.Stored(now)
	}
	lp.advance(now, x)
}
