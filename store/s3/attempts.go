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
	// maxTries is how often in a row a request may fail before it is given up.
	maxTries = 6

	// maxSilence is how often in a row a request may go without an answer: each
	// time takes AnswerTimeout or StallTimeout.
	maxSilence = 2

	// firstPause is how long the second try waits, on average; each one after that
	// waits twice as long as the one before, up to maxPause.
	firstPause = 200 * time.Millisecond
	maxPause   = 10 * time.Second

	// maxRetryAfter is the longest Retry-After that is waited for.
	maxRetryAfter = 2 * time.Minute
)

// attempts counts the failures in a row of something that is tried again.
type attempts struct{ tries, silences int }

// do sends a request until it is answered by something that means something. call sends
// it once.
func (s *Store) do(ctx context.Context, call func(context.Context) error) error {
	var last error // which says more than that there is no more time
	for e := new(attempts); ; {
		err := s.once(ctx, call)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil && last != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		}
		pause, again := s.again(e, err)
		if !again {
			return given(err, e.tries)
		}
		last = err
		if over := rate.Sleep(ctx, pause); over != nil {
			return fmt.Errorf("%w: %w", over, err)
		}
	}
}

// once sends a request. If the keys are not accepted, it asks for others, and sends it
// once more if there are some.
func (s *Store) once(ctx context.Context, call func(context.Context) error) error {
	if err := s.life.Err(); err != nil {
		return fs.ErrClosed
	}
	before := max(1, s.signer.asked.Load()) // the first keys come with the first request
	err := s.send(ctx, call)
	if err != nil && ctx.Err() == nil && mayBeKeys(err) && s.signer.renew(ctx, before) {
		err = s.send(ctx, call)
	}
	return err
}

func (s *Store) send(ctx context.Context, call func(context.Context) error) error {
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

// mayBeKeys reports whether a refusal may be for want of other keys. The answer to a
// HEAD has no code.
func mayBeKeys(err error) bool {
	r, ok := errors.AsType[*RefusedError](err)
	return ok && (errors.Is(r, ErrLogin) && r.Code != "RequestTimeTooSkewed" ||
		(r.Status == http.StatusForbidden || r.Status == http.StatusBadRequest) && (r.Code == "" || r.Code == "AccessDenied"))
}

// again reports whether there is a point in sending a request again that failed by err,
// and after which pause.
func (s *Store) again(e *attempts, err error) (pause time.Duration, again bool) {
	e.tries++
	r, refused := errors.AsType[*RefusedError](err)
	switch {
	case refused && (!hasNoTime(r) || r.After > maxRetryAfter):
		return 0, false
	case !refused && !isLoss(err):
		return 0, false
	case !refused && !s.reached.Load() && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH)):
		return 0, false // nothing was there from the first
	}
	if errors.Is(err, ErrStalled) {
		if e.silences++; e.silences >= maxSilence {
			return 0, false
		}
	}
	if e.tries >= maxTries {
		return 0, false
	}
	d := min(s.pause<<min(e.tries-1, 10), maxPause)
	pause = d/2 + rand.N(d) // many that were cut off together do not come back together
	if refused {
		pause = max(pause, r.After)
	}
	if s.config.Waiting != nil {
		s.config.Waiting(err, pause)
	}
	return pause, true
}

// hasNoTime reports whether a refusal asks to come again later.
func hasNoTime(r *RefusedError) bool {
	switch r.Status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests:
		return true
	}
	return r.Code == "RequestTimeout" || r.Code == "SlowDown" || r.Code == "OperationAborted" || r.Code == "ConditionalRequestConflict"
}

// given says that a request is given up after so many tries, if that is why.
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
