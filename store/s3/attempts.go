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
	// maxTries is the number of consecutive failures after which a request is given up.
	maxTries = 6

	// maxSilence is the number of consecutive tries without an answer after which a request is
	// given up. Each such try takes AnswerTimeout or StallTimeout.
	maxSilence = 2

	// firstPause is the average pause before the second try. Each further pause is twice as long as
	// the one before, up to maxPause.
	firstPause = 200 * time.Millisecond
	maxPause   = 10 * time.Second

	// maxRetryAfter is the longest Retry-After that the client obeys.
	maxRetryAfter = 2 * time.Minute
)

// attempts counts the consecutive failures of an operation that is retried.
type attempts struct{ tries, silences int }

// do sends a request, and retries it until there is a final answer. call sends it once.
func (c *client) do(ctx context.Context, call func(context.Context) error) error {
	var last error // its text says more than the error that ctx has ended
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

// once sends a request. If the keys are not accepted, it asks for new ones. If it gets new keys, it
// sends the request once more.
func (c *client) once(ctx context.Context, call func(context.Context) error) error {
	if err := c.life.Err(); err != nil {
		return fs.ErrClosed
	}
	before := max(1, c.signer.asked.Load()) // the first keys are fetched by the first request
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

// mayBeKeys reports whether other keys might avoid a refusal. The answer to a HEAD has no error
// code.
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
	pause = d/2 + rand.N(d) // so that requests that failed together are not retried together
	if refused {
		pause = max(pause, r.After)
	}
	if c.config.Waiting != nil {
		c.config.Waiting(err, pause)
	}
	return pause, true
}

// hasNoTime reports whether the server refuses a request now, but asks the client to try again
// later.
func hasNoTime(r *RefusedError) bool {
	switch r.Status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests:
		return true
	}
	return r.Code == "RequestTimeout" || r.Code == "SlowDown" || r.Code == "OperationAborted" || r.Code == "ConditionalRequestConflict"
}

// given adds the number of tries to err, if the request was given up after retries.
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
