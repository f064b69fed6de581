package bootload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"syscall"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot"
	"github.com/haul-project/haul/internal/poolhooks"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

var (
	errStalled = errors.New("nothing came for too long")
	errWrong   = errors.New("content differs from that of the first machine")
	errRange   = errors.New("the server sends another range than asked for")
)

// A client runs one machine, and makes its transfers.
type client struct {
	run     *run
	on, up  time.Duration // when the machine was switched on, and when it came up, since the run began
	content content       // hash of the file so far; used only by the goroutine or pool loop that transfers the file

	mu      sync.Mutex
	machine boot.Machine // guarded by mu while a transfer is in progress
	timer   *time.Timer  // checks whether the transfer has stalled; guarded by mu
}

// boot runs the machine until it is up, has failed, or ctx has ended.
func (c *client) boot(ctx context.Context) {
	defer c.run.left(c)
	c.machine.PowerOn(time.Now())
	for {
		switch o := c.machine.Order(); o.Step {
		case boot.Wait:
			if !sleep(ctx, time.Until(o.Until)) {
				return
			}
			c.machine.Expire(time.Now())
		case boot.Load, boot.Fetch:
			c.attempt(ctx, o)
			if ctx.Err() != nil && c.machine.Order().Step != boot.Up {
				return
			}
		default:
			c.up = time.Since(c.run.began)
			return
		}
	}
}

// attempt makes one transfer, and reports the outcome to the machine.
func (c *client) attempt(ctx context.Context, o boot.Order) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c.mu.Lock()
	before := c.machine.Count()
	c.timer = time.AfterFunc(time.Until(c.machine.Deadline()), func() { c.look(cancel) })
	c.mu.Unlock()
	move, what := c.load, "loader"
	if o.Step == boot.Fetch {
		move, what = c.fetch, "image"
	}
	err := move(ctx, o)
	if err == nil && !c.run.same(o.Step, c.content.digest()) {
		err = errWrong
	}
	how, cause := judge(err, context.Cause(ctx))
	if cause != "" {
		cause = what + ": " + cause
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer.Stop()
	c.timer = nil
	c.machine.Ended(time.Now(), how, cause)
	if ctx.Err() != nil && context.Cause(ctx) != errStalled {
		return // the run was interrupted
	}
	after := c.machine.Count()
	c.run.ended(o.Step, o.Server, how, cause, after.Loader-before.Loader+after.Image-before.Image, err)
}

// look cancels the transfer if no data has arrived for too long. Otherwise it restarts the timer.
func (c *client) look(cancel context.CancelCauseFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.timer == nil:
	case c.machine.Expire(time.Now()):
		cancel(errStalled)
	default:
		c.timer.Reset(time.Until(c.machine.Deadline()))
	}
}

// moved records how many bytes have arrived, and reports whether the machine loses power now.
func (c *client) moved(got, size int64) (vanish bool) {
	c.run.heard.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.machine.Moved(time.Now(), got, size)
}

// load fetches the loader by TFTP.
func (c *client) load(ctx context.Context, o boot.Order) error {
	c.content.begin(c.run.seed)
	w := &loaderWriter{client: c}
	done := make(chan error, 1)
	err := c.run.pool.GetBlocks(ctx, c.run.config.Loaders[o.Server], w, func(res tftpclient.Result, err error) {
		if res.First > 0 {
			c.run.heard.Store(true)
		}
		done <- err
	})
	if err != nil {
		return err
	}
	return <-done
}

// A loaderWriter receives the blocks of a loader and counts them.
type loaderWriter struct {
	client *client
	got    int64
}

// WriteBlock handles a block, and returns poolhooks.ErrVanish if the machine loses power. A writer
// learns the size of a file only with the last block. So the position at which the machine loses
// power is computed from the size of the loader that the first machine received.
func (w *loaderWriter) WriteBlock(off int64, data []byte, last bool, size int64) error {
	w.got += int64(len(data))
	w.client.content.writeAt(off, data)
	if !last {
		size = w.client.run.loader.Load()
	}
	if w.client.moved(w.got, max(size, 0)) {
		return poolhooks.ErrVanish
	}
	return nil
}

// buffers holds buffers for reading images.
var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// fetch fetches the image by HTTP, from the offset in the order on.
func (c *client) fetch(ctx context.Context, o boot.Order) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.run.config.Images[o.Server].String(), http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("User-Agent", "haul bench boot")
	if o.Offset > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", o.Offset))
	}
	resp, err := (&http.Client{Transport: c.run.http}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	c.run.heard.Store(true)
	size, err := c.answered(resp, o.Offset)
	if err != nil {
		return err
	}
	return c.read(resp.Body, size)
}

// answered checks the headers of a response. It returns the size of the whole file, or 0 if the
// size is not known.
func (c *client) answered(resp *http.Response, offset int64) (size int64, err error) {
	switch {
	case resp.StatusCode == http.StatusPartialContent && offset > 0:
		var from, to, total int64
		_, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &total)
		if err != nil || from != offset {
			return 0, errRange
		}
		return total, nil
	case resp.StatusCode != http.StatusOK:
		return 0, statusError(resp.StatusCode)
	case offset > 0:
		c.mu.Lock()
		c.machine.Restarted(time.Now())
		c.mu.Unlock()
	}
	c.content.begin(c.run.seed)
	return max(resp.ContentLength, 0), nil
}

// read reads the body of a response, which is the rest of the image.
func (c *client) read(body io.Reader, size int64) error {
	buf := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buf)
	for {
		n, err := body.Read(buf[:])
		c.content.write(buf[:n])
		if n > 0 && c.moved(c.content.at, size) {
			return poolhooks.ErrVanish
		}
		switch {
		case err == nil:
		case err != io.EOF:
			return err
		case size > 0 && c.content.at != size:
			return io.ErrUnexpectedEOF
		default:
			return nil
		}
	}
}

// A statusError is the error for an HTTP response with a status other than success.
type statusError int

func (e statusError) Error() string {
	return fmt.Sprintf("HTTP %d %s", int(e), http.StatusText(int(e)))
}

// judge returns the outcome of a transfer and its cause, which is a short text, so that equal
// causes can be counted. end is the cause for which the transfer's context was cancelled; nil if it
// was not cancelled.
func judge(err, end error) (boot.Outcome, string) {
	if err == nil {
		return boot.Whole, ""
	}
	if errors.Is(err, poolhooks.ErrVanish) {
		return boot.Vanished, ""
	}
	if errors.Is(err, errWrong) {
		return boot.Wrong, errWrong.Error()
	}
	if end != nil {
		return boot.Broken, end.Error()
	}
	if status, ok := errors.AsType[statusError](err); ok {
		switch {
		case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
			return boot.Busy, status.Error()
		case status >= http.StatusInternalServerError:
			return boot.Broken, status.Error()
		}
		return boot.Denied, status.Error()
	}
	if fault, ok := errors.AsType[*transfer.Error](err); ok && fault.Remote {
		if fault.Code == transfer.NotDefined {
			return boot.Broken, fault.Error() // the server is full, or is shutting down
		}
		return boot.Denied, fault.Error()
	}
	return boot.Broken, reason(err)
}

// reason returns the text of the innermost error of a chain. The text contains no addresses,
// because otherwise each address would count as a different cause.
func reason(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection lost"
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err.Error()
}
