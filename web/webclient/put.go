package webclient

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/store"
)

// maxRestarts is how many times an upload restarts from the beginning if the server keeps nothing
// of it. More restarts would hardly help, because a limit of the server, rather than an accident,
// may have cut off the upload.
const maxRestarts = 2

// maxForget is how long a failed upload waits for the server to discard the bytes that it keeps.
const maxForget = 2 * time.Second

// errGrown means that the caller has written more data than the announced size.
var errGrown = errors.New("there is more than the size that was said first, which HTTP cannot change")

// Create begins an upload by PUT (RFC 9110 §9.3.4). The data must be written in order, without
// gaps, and have the announced size, if there is one. Errors of the server are returned by a later
// write, or by Commit.
//
// If the connection is lost, or the server is unavailable for a while, the upload resumes from the
// offset that the server has. If the server keeps nothing, it restarts, a few times, provided that
// the data can be read again, as with FillFrom.
//
// With Resume, the upload is a [store.Resumer] if the server accepts uploads in parts, as haul's
// own does: see docs/http.md. The server compares the bytes that it kept with Create.Source.
func (c *Client) Create(ctx context.Context, name string, o store.Create) (store.Upload, error) {
	err := checkName(ctx, name)
	if err == nil && name == "." {
		err = store.ErrNotRegular
	}
	if err != nil {
		return nil, c.fail("create", name, err)
	}
	u := &putUpload{c: c, name: name, create: o, total: -1, done: make(chan struct{})}
	if o.Size > 0 {
		u.total = o.Size
	}
	switch {
	case o.Resume != "" && o.Size > 0 && !c.takeAnew(name):
		u.source = uploadSource(o)
		if u.in, u.kept, err = c.askKept(ctx, new(attempts), name, u.source, o); err != nil {
			return nil, c.fail("create", name, err)
		}
		u.resumes = u.kept
	case o.Size >= keptFrom:
		// If this fails, the PUT reports the reason.
		u.kept, _ = c.takesParts(ctx, new(attempts), name)
		u.source = rand.Text() // a random source, so no other upload resumes this one
	}
	u.reached = u.in
	u.ctx, u.cancel = context.WithCancelCause(ctx)
	u.body = newPutBody(u.total, u.in)
	u.unlink = context.AfterFunc(u.ctx, func() { u.body.abort(context.Cause(u.ctx), false) })
	if u.resumes {
		return &resumableUpload{u, u.in}, nil
	}
	return u, nil
}

// A putUpload is a PUT whose content the caller writes. Only Commit sends the last byte, so before
// Commit the server cannot take the received bytes for the whole file.
type putUpload struct {
	c      *Client
	name   string
	create store.Create
	total  int64  // size of the file in bytes; -1 if unknown
	source string // the Upload-Source, by which the server recognizes the upload
	ctx    context.Context
	cancel context.CancelCauseFunc
	unlink func() bool
	body   *putBody
	done   chan struct{} // closed when send has returned

	// The next fields are used by Create, then by the goroutine that runs send, and by finish after
	// send has returned.
	kept    bool  // the server keeps the received bytes if the upload is cut off
	resumes bool  // a later upload can resume this one
	reached int64 // the server has confirmed that it has all bytes before this offset
	high    int64 // the largest offset sent in any try
	vain    int   // number of tries in a row that sent data but did not advance reached
	whole   bool  // everything had been sent when a connection was lost

	mu      sync.Mutex
	in      int64 // the offset of the next write; guarded by mu
	started bool  // start was called; guarded by mu
	ended   bool  // Commit or Close was called; guarded by mu

	err error // the result of send, set before done is closed
}

// start starts the goroutine that sends the request, if it is not started yet.
func (u *putUpload) start() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.started {
		return
	}
	u.started = true
	go func() {
		defer close(u.done)
		u.err = u.send()
		if u.err != nil {
			u.body.abort(u.err, false)
		}
	}()
}

// send sends the request, as many times as necessary, and returns the final result.
func (u *putUpload) send() error {
	e := attempts{begun: true}
	for {
		a, err := u.c.sendAs(u.ctx, u.request())
		u.high = max(u.high, u.body.sent())
		if err == nil && u.refusesPart(a) {
			a.close()
			u.kept = false
			continue
		}
		repeatable := u.kept || u.body.restarts(0)
		if err == nil && (!repeatable || !isAway(a.StatusCode)) {
			return u.afterLoss(u.result(a))
		}
		pause, again := time.Duration(0), false
		local := u.body.localError()
		if repeatable && local == nil {
			if u.body.sent() > u.body.begin() {
				u.c.wasReached()
				e.moved() // resume finds out whether the server has kept any of the sent bytes: see vain
			}
			pause, again = u.c.again(&e, a, err)
		}
		if a != nil {
			err = statusError(a)
		}
		switch {
		case local != nil:
			return u.localFailure(local)
		case !again:
			return lost(err, e.tries)
		}
		u.whole = u.whole || u.body.complete()
		if err := rate.Sleep(u.ctx, pause); err != nil {
			return err
		}
		if stuck := u.resume(&e); stuck != nil {
			return fmt.Errorf("%w; before that: %w", stuck, err)
		}
	}
}

// refusesPart reports whether the server refuses an upload only because it is sent as a part: the
// server cannot keep parts for this name, or there is another upload to the name. The upload is then
// sent as a whole.
func (u *putUpload) refusesPart(a *response) bool {
	switch a.StatusCode {
	case http.StatusBadRequest, http.StatusNotImplemented, http.StatusLocked:
		return u.kept && !u.resumes && u.reached == 0 && u.body.rewind()
	}
	return false
}

// afterLoss adds an explanation if the server says that the name is taken, and an earlier try may be
// the cause: the server may have received all of it, and only the answer was lost.
func (u *putUpload) afterLoss(err error) error {
	taken := errors.Is(err, fs.ErrExist)
	if refused, ok := errors.AsType[*StatusError](err); ok {
		taken = refused.Code == http.StatusConflict
	}
	if !u.whole || !taken {
		return err
	}
	return fmt.Errorf("%w; all of it was sent when the connection was lost, so what has the name may be this upload", err)
}

// request returns the PUT for the rest of the body.
func (u *putUpload) request() request {
	k := request{method: http.MethodPut, url: u.c.urlOf(u.name, false), header: http.Header{"Content-Type": {"application/octet-stream"}}, body: u.body}
	if u.create.Exclusive {
		k.header.Set("If-None-Match", "*")
	}
	if u.kept {
		k.header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", u.body.begin(), u.total-1, u.total))
		k.header.Set("Upload-Source", u.source)
	}
	return k
}

// result returns the error for the answer to the PUT, or nil if the file is published.
func (u *putUpload) result(a *response) error {
	switch a.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusNoContent:
		a.close()
		if !u.body.complete() {
			return fmt.Errorf("%w: it takes the upload for whole before all was sent", ErrProtocol)
		}
		return nil
	case http.StatusPreconditionFailed:
		a.close()
		return fs.ErrExist
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return fmt.Errorf("no files can be sent there: %w", statusError(a))
	case http.StatusNotFound, http.StatusConflict:
		return u.c.refusedBelow(u.ctx, u.name, statusError(a))
	}
	return refusalError(a)
}

// check returns an error if the upload cannot accept n bytes at the offset off.
func (u *putUpload) check(off, n int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.ended:
		return fs.ErrClosed
	case off != u.in:
		return errInOrder
	case u.total >= 0 && n > u.total-off:
		return errGrown
	}
	return nil
}

// localFailure returns the error for a source that could not be read.
func (u *putUpload) localFailure(err error) error {
	return &TransferError{Op: "write", URL: u.c.URL(u.name), Offset: u.body.sent(), Local: true, Err: err}
}

// fail adds the operation and the URL to an error.
func (u *putUpload) fail(err error) error {
	if moved, ok := errors.AsType[*TransferError](err); ok {
		return moved
	}
	if local := u.body.localError(); local != nil {
		return u.localFailure(local)
	}
	if errors.Is(err, errGrown) || errors.Is(err, errInOrder) || errors.Is(err, fs.ErrClosed) {
		return fmt.Errorf("put %s: %w", u.c.URL(u.name), err)
	}
	return u.c.fail("put", u.name, err)
}

// WriteAt sends p. off must be the number of bytes written before.
func (u *putUpload) WriteAt(p []byte, off int64) (int, error) {
	if err := u.check(off, int64(len(p))); err != nil {
		return 0, u.fail(err)
	}
	if len(p) == 0 {
		return 0, nil
	}
	u.start()
	n, err := u.body.write(p)
	u.advance(int64(n))
	if err != nil {
		return n, u.fail(err)
	}
	return n, nil
}

func (u *putUpload) advance(n int64) {
	u.mu.Lock()
	u.in += n
	u.mu.Unlock()
}

// FillFrom sends size bytes of r, from off on. Until Commit or Close has returned, the upload may read
// these bytes of r again, if the server lost them or the request has to be repeated.
func (u *putUpload) FillFrom(ctx context.Context, r io.ReaderAt, off, size int64) (int64, error) {
	if err := u.check(off, size); err != nil {
		return 0, u.fail(err)
	}
	if size <= 0 {
		return 0, nil
	}
	defer context.AfterFunc(ctx, func() { u.body.abort(context.Cause(ctx), false) })()
	u.body.begins(r, off, off+size)
	u.start()
	n, err := u.body.fill()
	u.advance(n)
	if err != nil {
		return n, u.fail(err)
	}
	return n, nil
}

// Truncate accepts only the current size of the upload.
func (u *putUpload) Truncate(size int64) error {
	u.mu.Lock()
	in := u.in
	u.mu.Unlock()
	if size != in {
		return u.fail(errInOrder)
	}
	return nil
}

// Commit sends the last byte, and returns the server's result.
func (u *putUpload) Commit() error {
	u.mu.Lock()
	in, ended := u.in, u.ended
	u.ended = true
	u.mu.Unlock()
	defer u.finish(fs.ErrClosed)
	switch {
	case ended:
		return u.fail(fs.ErrClosed)
	case u.total >= 0 && in < u.total:
		return fmt.Errorf("put %s: there are %d bytes, and %d were said: %w", u.c.URL(u.name), in, u.total, io.ErrUnexpectedEOF)
	}
	u.body.commit()
	u.start()
	<-u.done
	if u.err != nil {
		return u.fail(u.err)
	}
	return nil
}

// Close gives up the upload unless it was committed: the connection ends before the last byte, so the
// server does not publish the file.
func (u *putUpload) Close() error {
	u.mu.Lock()
	ended := u.ended
	u.ended = true
	u.mu.Unlock()
	if !ended {
		u.finish(fs.ErrClosed)
	}
	return nil
}

// finish cancels the request, and waits until send has returned.
func (u *putUpload) finish(err error) {
	u.cancel(err)
	u.unlink()
	u.body.abort(err, false)
	u.mu.Lock()
	started := u.started
	u.mu.Unlock()
	if started {
		<-u.done
	}
	u.body.release()
	if started && u.err != nil && u.kept && !u.resumes && u.high > 0 && !errors.Is(u.err, ErrLost) {
		u.forget()
	}
}

// A resumableUpload is an upload that can be resumed later.
type resumableUpload struct {
	*putUpload
	resumed int64
}

var _ store.Resumer = (*resumableUpload)(nil)

// Resumed returns how many bytes the server has from an earlier upload.
func (r *resumableUpload) Resumed() int64 { return r.resumed }

// Discard ends the upload. The next upload to the same name starts from scratch, and the server
// then discards the bytes that it has kept.
func (r *resumableUpload) Discard() error {
	r.c.mu.Lock()
	r.c.anew[r.name] = true
	r.c.mu.Unlock()
	return r.Close()
}

// resume prepares the next try of an upload that was cut off: from the offset that the server has,
// or from the start if the server keeps nothing.
func (u *putUpload) resume(e *attempts) error {
	if u.body.sent() > u.body.begin() {
		u.vain++
	}
	if u.kept {
		there, kept, err := u.c.askKept(u.ctx, e, u.name, u.source, u.create)
		switch {
		case err != nil:
			return err
		case kept:
			return u.resumeAt(e, there)
		}
		u.kept = false
	}
	switch {
	case u.vain > maxRestarts:
		return fmt.Errorf("%w: the server keeps nothing of an upload that is cut off, and it was begun %d times", ErrLost, u.vain)
	case !u.body.restart(0):
		return fmt.Errorf("%w: the server keeps nothing of an upload that is cut off, and what was sent cannot be read again", ErrLost)
	}
	return nil
}

// resumeAt prepares the next try from the offset that the server has.
func (u *putUpload) resumeAt(e *attempts, there int64) error {
	if there > u.reached {
		u.reached, u.vain = there, 0
		e.moved()
	}
	switch {
	case there > u.high:
		return fmt.Errorf("%w: it has %d bytes of an upload of which %d were sent", ErrProtocol, there, u.high)
	case u.vain >= maxTries:
		return fmt.Errorf("%w: the server has no more of the upload than %d bytes, though more was sent %d times", ErrLost, there, u.vain)
	case !u.body.restart(there):
		return fmt.Errorf("%w: the server has %d bytes of the upload, from where it cannot be resumed", ErrLost, there)
	}
	return nil
}

// forget makes the server discard the bytes of an upload that will not be resumed. To do so, it asks
// for an upload to the same name with another source. If forget fails, the server discards the bytes
// later by itself.
func (u *putUpload) forget() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.ctx), maxForget)
	defer cancel()
	_, _, _ = u.c.askKept(ctx, new(attempts), u.name, rand.Text(), u.create)
}
