package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"sync"

	"github.com/haul-project/haul/store"
)

// expectFrom is from how many bytes on the server is asked whether it wants an
// upload before it is sent (RFC 9110 §10.1.1). For less that takes longer than
// sending it.
const expectFrom = 1 << 20

// errGrown says that there is more to send than was said.
var errGrown = errors.New("there is more than the size that was said first, which HTTP cannot change")

// errInOrder says that an upload is written from its start to its end.
var errInOrder = fmt.Errorf("%w: HTTP takes what is sent in order, without gaps", errors.ErrUnsupported)

// Create begins an upload, by PUT (RFC 9110 §9.3.4). It is written in order,
// without gaps, and of the size that was said, if one was. What the server has to
// say against it comes with the first writes, or by Commit.
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
	u := &clientUpload{c: c, name: name, create: o, total: -1, done: make(chan struct{})}
	if o.Size > 0 {
		u.total = o.Size
	}
	if o.Resume != "" && o.Size > 0 && !c.takeAnew(name) {
		there, kept, err := c.askKept(ctx, name, o)
		if err != nil {
			return nil, c.fail("create", name, err)
		}
		if kept {
			u.kept, u.in = true, there
		}
	}
	u.ctx, u.cancel = context.WithCancelCause(ctx)
	u.body = newClientBody(u.total, u.in)
	u.unlink = context.AfterFunc(u.ctx, func() { u.body.abort(context.Cause(u.ctx), false) })
	if u.kept {
		return &clientResumer{u, u.in}, nil
	}
	return u, nil
}

// A clientUpload is a PUT whose body is what is written. The last byte stays
// here until Commit: the server has nothing that it could take for the whole.
type clientUpload struct {
	c      *Client
	name   string
	create store.Create
	total  int64 // bytes; -1 if nobody knows
	kept   bool  // what has come is kept if it is cut off
	ctx    context.Context
	cancel context.CancelCauseFunc
	unlink func() bool
	body   *clientBody
	done   chan struct{} // closed when there is a result

	mu      sync.Mutex
	in      int64 // mu: where the next write belongs
	started bool  // mu
	ended   bool  // mu: by Commit or Close

	err error // of done
}

// start sends the request, once.
func (u *clientUpload) start() {
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

// send sends the request, and returns what the server says of it in the end.
func (u *clientUpload) send() error {
	reached := u.body.begin() // what the server has for certain
	for tries := 1; ; tries++ {
		a, err := u.c.sendAs(u.ctx, u.request())
		if err == nil {
			return u.result(a)
		}
		if e := u.body.localError(); e != nil {
			return u.localFailure(e)
		}
		if !u.kept || !isLoss(err) || tries >= maxClientTries {
			return lost(err, tries)
		}
		there, err := u.goOn(tries)
		if err != nil {
			return err
		}
		if there > reached {
			reached, tries = there, 0
		}
	}
}

// request returns the PUT of what the body has yet to send.
func (u *clientUpload) request() clientRequest {
	k := clientRequest{method: http.MethodPut, url: u.c.urlOf(u.name, false), header: http.Header{"Content-Type": {"application/octet-stream"}}, body: u.body}
	if u.create.Exclusive {
		k.header.Set("If-None-Match", "*")
	}
	if u.kept {
		k.header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", u.body.begin(), u.total-1, u.total))
		k.header.Set("Upload-Source", uploadSource(u.create))
	}
	return k
}

// result returns what an answer to the PUT means.
func (u *clientUpload) result(a *clientAnswer) error {
	switch a.StatusCode {
	case http.StatusOK, http.StatusCreated, http.StatusNoContent:
		a.close()
		if !u.body.complete() {
			return fmt.Errorf("%w: it takes the upload for whole before all was sent", ErrClientProtocol)
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
	return clientRefusal(a)
}

// refusedBelow adds to the refusal of an upload that the directory which it would
// go to is missing, if it is, and what to do. WebDAV has 409 for that (RFC 4918
// §9.7.1), others 404; but 409 is also for much else.
func (c *Client) refusedBelow(ctx context.Context, name string, refusal error) error {
	dir := path.Dir(name)
	if dir == "." {
		return refusal
	}
	if _, err := c.stat(ctx, dir); !errors.Is(err, fs.ErrNotExist) {
		return refusal
	}
	return fmt.Errorf("%w; the directory %s is missing, and the server makes none for a file: make it there first", refusal, c.URL(dir))
}

// check returns an error unless the upload can take what belongs at off.
func (u *clientUpload) check(off, n int64) error {
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
func (u *clientUpload) localFailure(err error) error {
	return &ClientTransferError{Op: "write", URL: u.c.URL(u.name), Offset: u.body.sent(), Local: true, Err: err}
}

// fail says what has failed, where.
func (u *clientUpload) fail(err error) error {
	if moved, ok := errors.AsType[*ClientTransferError](err); ok {
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
func (u *clientUpload) WriteAt(p []byte, off int64) (int, error) {
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

func (u *clientUpload) advance(n int64) {
	u.mu.Lock()
	u.in += n
	u.mu.Unlock()
}

// FillFrom sends size bytes of r. Until Commit or Close it may read them again, if
// the server wants that.
func (u *clientUpload) FillFrom(ctx context.Context, r io.ReaderAt, off, size int64) (int64, error) {
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
func (u *clientUpload) Truncate(size int64) error {
	u.mu.Lock()
	in := u.in
	u.mu.Unlock()
	if size != in {
		return u.fail(errInOrder)
	}
	return nil
}

// Commit sends the last byte, and returns what the server says.
func (u *clientUpload) Commit() error {
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
func (u *clientUpload) Close() error {
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
func (u *clientUpload) finish(err error) {
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
}
