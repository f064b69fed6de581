package s3

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"syscall"
	"time"

	"github.com/haul-project/haul/internal/rate"
)

const (
	// maxTries is the number of consecutive failures after which a request is not retried any more.
	maxTries = 6

	// maxSilence is the number of consecutive tries without any answer after which a request is not
	// retried any more. Each such try takes AnswerTimeout or StallTimeout.
	maxSilence = 2

	// firstPause is the average pause before the second try. Each further pause is twice as long as
	// the one before, up to maxPause.
	firstPause = 200 * time.Millisecond
	maxPause   = 10 * time.Second

	// maxRetryAfter is the longest Retry-After for which the client waits. If a server asks for
	// more, the request fails.
	maxRetryAfter = 2 * time.Minute
)

// attempts counts the consecutive failures of a request, and how many of them were without any
// answer.
type attempts struct{ tries, silences int }

// do sends a request, and retries it until it succeeds or another try is useless. `call` sends it
// once.
func (c *client) do(ctx context.Context, call func(context.Context) error) error {
	var last error // the error of the last try; it says more than the error for the end of ctx
	for e := new(attempts); ; {
		err := c.once(ctx, call)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil && last != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		}
		pause, again := c.again(e, err)
		if !again {
			return given(err, e.tries)
		}
		last = err
		if over := rate.Sleep(ctx, pause); over != nil {
			return fmt.Errorf("%w: %w", over, err)
		}
	}
}

// once sends a request. If the server refuses the keys, once gets new keys. If these differ from
// the old ones, it sends the request a second time.
func (c *client) once(ctx context.Context, call func(context.Context) error) error {
	if err := c.life.Err(); err != nil {
		return fs.ErrClosed
	}
	before := max(1, c.signer.asked.Load()) // at least 1, because the first request itself fetches the first keys
	err := c.send(ctx, call)
	if err != nil && ctx.Err() == nil && mayBeKeys(err) && c.signer.renew(ctx, before) {
		err = c.send(ctx, call)
	}
	return err
}

func (c *client) send(ctx context.Context, call func(context.Context) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	a, ok := ctx.Value(answerKey{}).(*answer)
	if !ok {
		a = new(answer)
		ctx = context.WithValue(ctx, answerKey{}, a)
	}
	err := call(ctx)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return explain(err, a)
}

// mayBeKeys reports whether a refusal may be due to the keys, so that other keys might help. The
// answer to a HEAD has no error code, so mayBeKeys then decides by the status.
func mayBeKeys(err error) bool {
	r, ok := errors.AsType[*RefusedError](err)
	return ok && (errors.Is(r, ErrLogin) && r.Code != "RequestTimeTooSkewed" ||
		(r.Status == http.StatusForbidden || r.Status == http.StatusBadRequest) && (r.Code == "" || r.Code == "AccessDenied"))
}

// again reports whether to retry a request that failed with err, and after which pause.
func (c *client) again(e *attempts, err error) (pause time.Duration, again bool) {
	e.tries++
	r, refused := errors.AsType[*RefusedError](err)
	switch {
	case refused && (!hasNoTime(r) || r.After > maxRetryAfter):
		return 0, false
	case !refused && !isLoss(err):
		return 0, false
	case !refused && !c.http.reached.Load() && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH)):
		return 0, false // no server has ever answered
	}
	if errors.Is(err, ErrStalled) {
		if e.silences++; e.silences >= maxSilence {
			return 0, false
		}
	}
	if e.tries >= maxTries {
		return 0, false
	}
	d := min(c.pause<<min(e.tries-1, 10), maxPause)
	pause = d/2 + rand.N(d) // random, so that requests that failed together are not retried together
	if refused {
		pause = max(pause, r.After)
	}
	if c.config.Waiting != nil {
		c.config.Waiting(err, pause)
	}
	return pause, true
}

// hasNoTime reports whether the refusal is temporary, so that the client should try again later.
func hasNoTime(r *RefusedError) bool {
	switch r.Status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests:
		return true
	}
	return r.Code == "RequestTimeout" || r.Code == "SlowDown" || r.Code == "OperationAborted" || r.Code == "ConditionalRequestConflict"
}

// given returns the error of a request that is not retried any more; err is the error of the last
// try. If err is one that may be retried, the result is an ErrLost which, after several tries,
// includes their number.
func given(err error, tries int) error {
	r, refused := errors.AsType[*RefusedError](err)
	switch {
	case refused && !hasNoTime(r), !refused && !isLoss(err), errors.Is(err, ErrLost) && tries < 2:
		return err
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: %w; check the endpoint (AWS_ENDPOINT_URL)", ErrLost, err)
	case tries > 1:
		return fmt.Errorf("%w, %d times in a row: %w", ErrLost, tries, err)
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}
