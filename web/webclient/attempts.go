package webclient

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

const (
	// maxTries is how many times in a row a request may fail before the client gives up. If the
	// server has answered before, the client tries longer: see Config.AbsenceTimeout.
	maxTries = 5

	// maxSilence is how many times in a row a request may get no answer: each time takes
	// AnswerTimeout or StallTimeout.
	maxSilence = 2

	// maxRetryAfter is the longest Retry-After (RFC 9110 §10.2.3) that the client waits for. If the
	// server names a longer one, the client does not try again.
	maxRetryAfter = 2 * time.Minute

	// lockedPatience is how long a server may take to notice that the previous connection of a
	// resumed upload was lost. It is the default stall timeout of haul's server, plus a margin.
	lockedPatience = 90 * time.Second
)

// attempts counts failures in a row. The zero value means that nothing was tried yet.
type attempts struct {
	begun    bool      // part of a transfer is done, and the rest can be resumed
	tries    int       // failures in a row
	silences int       // how many of tries ended without an answer
	since    time.Time // the time of the first failure that tries counts
}

// moved resets the count, because some data was transferred.
func (e *attempts) moved() { *e = attempts{begun: e.begun} }

// count counts a failed try, and records the time of the first one.
func (e *attempts) count() {
	if e.tries++; e.tries == 1 {
		e.since = time.Now()
	}
}

// late reports whether at least maxTries tries have failed, and the time `patience` has passed since
// the first of them.
func (e *attempts) late(patience time.Duration) bool {
	return e.tries >= maxTries && time.Since(e.since) >= patience
}

// again decides whether to repeat a request that got the answer a or the error err, and returns the
// pause before the next try. Before a pause, it calls Config.Waiting or Config.Reconnecting.
func (c *Client) again(e *attempts, a *response, err error) (pause time.Duration, again bool) {
	if err != nil {
		return c.againAfterLoss(e, err)
	}
	// A locked file is tried again: the server may not have noticed yet that the upload that holds
	// the lock was lost.
	if !hasNoTime(a.StatusCode) && a.StatusCode != http.StatusLocked {
		return 0, false
	}
	after, said := parseRetryAfter(a.Header.Get("Retry-After"), time.Now())
	return c.againAfterRefusal(e, a.StatusCode, after, said)
}

// againAfterLoss is like again for a request without an answer. A server that has answered before
// may be restarting, so the client waits for it. A server that has never answered is considered
// down.
func (c *Client) againAfterLoss(e *attempts, err error) (pause time.Duration, again bool) {
	c.mu.Lock()
	reached := c.reached
	c.mu.Unlock()
	patience := time.Duration(0)
	if reached {
		patience = c.config.AbsenceTimeout
	}
	e.count()
	if errors.Is(err, ErrStalled) {
		e.silences++
	}
	dial, ok := errors.AsType[*net.OpError](err)
	switch {
	case !isLoss(err), e.silences >= maxSilence, e.late(patience):
		return 0, false
	case ok && dial.Op == "dial" && !reached:
		return 0, false
	}
	pause = c.backOff(e.tries, maxLossPause)
	if c.config.Reconnecting != nil {
		c.config.Reconnecting(err, pause)
	}
	return pause, true
}

// againAfterRefusal is like again for a request that the server was too busy for. If the server
// named a time, that time applies. If it named no time, and a transfer is under way, the client
// keeps trying for AbsenceTimeout, because the answer may come from a proxy whose server has
// stopped. If a resumed upload is locked, the client keeps trying for lockedPatience: the lock may
// be that of the upload's own previous connection, until the server notices that this connection
// was lost.
func (c *Client) againAfterRefusal(e *attempts, status int, after time.Duration, said bool) (pause time.Duration, again bool) {
	e.count()
	patience := time.Duration(0)
	switch {
	case e.begun && status == http.StatusLocked:
		patience = lockedPatience
	case e.begun && !said:
		patience = c.config.AbsenceTimeout
	}
	if e.late(patience) || after > maxRetryAfter {
		return 0, false
	}
	if pause = after; !said || e.begun {
		pause = max(after, c.backOff(e.tries, maxPause))
	}
	if c.config.Waiting != nil {
		c.config.Waiting(status, pause)
	}
	return pause, true
}

// backOff returns the pause after the given number of tries. The mean pause doubles with each try, up
// to `most`. The pause differs from its mean by up to a half at random, so that clients that were cut
// off together do not return together.
func (c *Client) backOff(tries int, most time.Duration) time.Duration {
	d := min(c.pause<<min(tries-1, 10), most)
	return d/2 + rand.N(d)
}

// isAway reports whether a status means that a server, or the server behind a proxy, is
// unavailable, but may return soon.
func isAway(code int) bool {
	return code == http.StatusBadGateway || code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout
}

// hasNoTime reports whether a status asks the client to try again later: the server is unavailable,
// or receives too many requests.
func hasNoTime(code int) bool { return isAway(code) || code == http.StatusTooManyRequests }
