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

// maxRestarts is how often an upload is begun anew of which the server keeps
// nothing: what cuts it off may be a bound that it has, and not an accident.
const maxRestarts = 2

// maxForget is how long an upload that has failed waits for the server to
// give up what it keeps.
const maxForget = 2 * time.Second

// errGrown says that there is more to send than was said.
var errGrown = errors.New("there is more than the size that was said first, which HTTP cannot change")

// Create begins an upload, by PUT (RFC 9110 §9.3.4). It is written in order,
// without gaps, and of the size that was said, if one was. The first writes, or
// Commit, return the server's objections.
//
// If its connection is lost, or the server is gone for a while, it resumes where the
// server has it, or begins anew, a few times, where what was sent can be read again, as
// by FillFrom.
//
// With Resume it is a [store.Resumer] if the server takes uploads in parts, as
// haul's own does: see docs/http.md. It has itself held what it kept against
// Create.Source.
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
		// If this fails, the PUT shows why.
		u.kept, _ = c.takesParts(ctx, new(attempts), name)
		u.source = rand.Text() // no other upload resumes it
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

// A putUpload is a PUT whose body is what is written. The last byte stays
// here until Commit: the server has nothing that it could take for the whole.
type putUpload struct {
	c      *Client
	name   string
	create store.Create
	total  int64  // bytes; -1 if unknown
	source string // by which the server knows it again
	ctx    context.Context
	cancel context.CancelCauseFunc
	unlink func() bool
	body   *putBody
	done   chan struct{} // closed when there is a result

	// Of Create, and then of the goroutine that sends it.
	kept    bool  // what has come is kept if it is cut off
	resumes bool  // also for another upload
	reached int64 // what the server has for certain
	high    int64 // up to where something was sent, in any try
	vain    int   // tries in a row of which the server has no more than before, though something was sent
	whole   bool  // all was sent when a connection was lost

	mu      sync.Mutex
	in      int64 // mu: where the next write belongs
	started bool  // mu
	ended   bool  // mu: by Commit or Close

	err error // of done
}

// start sends the request, once.
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

// send sends the request, as often as need be, and returns what the server says of it
// in the end.
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
				e.moved() // if the server has none of it, resume counts that
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

// refusesPart reports whether the server does not take as a part what it would take as
// a whole: nothing is kept there, or there is another upload to the same name. The
// upload is then to be sent as a whole.
func (u *putUpload) refusesPart(a *response) bool {
	switch a.StatusCode {
	case http.StatusBadRequest, http.StatusNotImplemented, http.StatusLocked:
		return u.kept && !u.resumes && u.reached == 0 && u.body.rewind()
	}
	return false
}

// afterLoss explains an error by which the server may mean this very upload: one that
// it had all of when its answer was lost.
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

// request returns the PUT of what the body has yet to send.
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

// result returns what an answer to the PUT means.
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

// check returns an error unless the upload can take what belongs at off.
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

// localFailure says that what was to be sent could not be read.
func (u *putUpload) localFailure(err error) error {
	return &TransferError{Op: "write", URL: u.c.URL(u.name), Offset: u.body.sent(), Local: true, Err: err}
}

// fail says what has failed, where.
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

// WriteAt writes p, if that is what comes next.
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

// FillFrom sends size bytes of r. Until Commit or Close has returned it may read them
// again, if the server wants that, or has lost them.
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

// Truncate accepts the size that the upload has.
func (u *putUpload) Truncate(size int64) error {
	u.mu.Lock()
	in := u.in
	u.mu.Unlock()
	if size != in {
		return u.fail(errInOrder)
	}
	return nil
}

// Commit sends the last byte, and returns what the server says.
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

// Close gives the upload up unless it was committed: the server sees its
// connection end before its last byte.
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

// finish ends the request, and waits for its end.
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

// Resumed returns how much the server has from before.
func (r *resumableUpload) Resumed() int64 { return r.resumed }

// Discard ends the upload. The next to the same name begins anew, and the server
// gives up what it has then.
func (r *resumableUpload) Discard() error {
	r.c.mu.Lock()
	r.c.anew[r.name] = true
	r.c.mu.Unlock()
	return r.Close()
}

// resume resumes an upload that was cut off: where the server has it, or from its
// start if the server keeps nothing.
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

// resumeAt resumes an upload where the server says that it has it.
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

// forget has the server give up what it keeps of an upload that will not be
// resumed: it does when it is asked for another source. If that fails, the server
// does in the end.
func (u *putUpload) forget() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.ctx), maxForget)
	defer cancel()
	_, _, _ = u.c.askKept(ctx, new(attempts), u.name, rand.Text(), u.create)
}
