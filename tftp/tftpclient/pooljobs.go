package tftpclient

import (
	"io"
	"time"

	"github.com/haul-project/haul/tftp/internal/fileio"
)

// submit passes x to a worker. OpenJob creates the Upload of a download, and CloseJob discards a
// download that failed.
func (x *poolTransfer) submit(what fileio.Job) {
	x.job = what
	x.loop.pool.workers.add(x)
}

// Work does the job. Workers call it.
func (x *poolTransfer) Work() {
	x.jobErr = nil
	defer func() {
		if p := recover(); p != nil {
			x.jobErr = fileio.Crashed(p)
		}
	}()
	switch x.job {
	case fileio.ScanJob:
		x.jobErr = x.scan()
	case fileio.OpenJob:
		x.upload, x.jobErr = x.request.create(x.serverSize)
	case fileio.FlushJob:
		x.jobErr = x.buffer.Flush(x.upload)
	case fileio.CommitJob:
		x.jobErr = x.commit()
	case fileio.FetchJob:
		x.jobErr = x.fetch.Fetch(x.reader)
	case fileio.CloseJob:
		u := x.upload
		x.upload = nil
		_ = u.Close() // discards
	}
}

// HandBack passes x back to its loop.
func (x *poolTransfer) HandBack() { x.loop.inbox.workDone(x) }

func (f *poolFile) scan() error {
	text, err := fileio.OpenText(io.NewSectionReader(f.reader, 0, f.size), nil)
	if err != nil {
		return err
	}
	f.reader, f.size = text, text.Size()
	return nil
}

// commit publishes a complete file.
func (x *poolTransfer) commit() error {
	if err := x.buffer.Commit(x.upload); err != nil {
		return err
	}
	u := x.upload
	x.upload = nil
	return u.Close()
}

// prepare creates the Upload of a download, once the server has agreed to send the file.
func (x *poolTransfer) prepare() {
	if done, _ := x.receiver.Done(); done || x.opened || x.request.blocks != nil || !x.receiver.Heard() {
		return
	}
	x.opened = true
	window := max(1, x.receiver.Agreed().Window) * x.receiver.BlockSize()
	x.buffer.Reset(max(2*window, clientRing), 0, x.request.target.Mode)
	x.submit(fileio.OpenJob)
}

// acknowledge allows the ACK that is due if the buffer has room for another window, and has a
// worker write the buffered data.
func (x *poolTransfer) acknowledge(now time.Time) {
	window := int64(max(1, x.receiver.Agreed().Window)) * int64(x.receiver.BlockSize())
	if !x.last && x.buffer.Fits(window) {
		x.receiver.Stored(now)
	}
	if x.job != fileio.NoJob || x.upload == nil {
		return
	}
	switch {
	case x.last:
		x.buffer.Mark()
		x.submit(fileio.CommitJob)
	case x.buffer.IsHalfFull():
		x.buffer.Mark()
		x.submit(fileio.FlushJob)
	}
}

// worked handles the return of x from a worker.
func (x *poolTransfer) worked(now time.Time) {
	what := x.job
	x.job = fileio.NoJob
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
	case what == fileio.ScanJob:
		x.sendRequest(now)
		return
	case what == fileio.OpenJob:
		x.acknowledge(now)
	case what == fileio.FlushJob:
		x.buffer.Free()
		x.acknowledge(now)
	case what == fileio.CommitJob:
		x.receiver.Stored(now)
	}
	lp.advance(now, x)
}
