package webclient

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"time"
)

const (
	// maxTries is how often in a row a request may fail before it is given up. A
	// server that has answered before is asked for longer: see Config.AbsenceTimeout.
	maxTries = 5

	// maxSilence is how often in a row a request may go without an answer:
	// each time takes AnswerTimeout or StallTimeout.
	maxSilence = 2

	// maxRetryAfter is the longest Retry-After (RFC 9110 §10.2.3) that is waited
	// for. A server that asks for more is taken at its word, and left alone.
	maxRetryAfter = 2 * time.Minute

	// lockedPatience is for how long a server may take to notice that the connection
	// of an upload that is to be resumed is gone: DefaultStall, and some more.
	lockedPatience = 90 * time.Second
)

// attempts counts the failures in a row of something that is tried again. The zero
// value is of something that was not tried yet.
type attempts struct {
	begun    bool      // a part of a transfer has moved that can be resumed from there
	tries    int       // failures in a row
	silences int       // of them, those that ended without an answer
	since    time.Time // when the first of them failed
}

// moved begins the count anew: some of what was asked for was transferred.
func (e *attempts) moved() { *e = attempts{begun: e.begun} }

// count counts a try that has failed.
func (e *attempts) count() {
	if e.tries++; e.tries == 1 {
		e.since = time.Now()
	}
}

// late reports whether it was tried often enough, and for as long as there is patience.
func (e *attempts) late(patience time.Duration) bool {
	return e.tries >= maxTries && time.Since(e.since) >= patience
}

// again reports whether there is a point in sending a request again that had this
// answer or error, and after which pause. It calls the hook for waiting.
func (c *Client) again(e *attempts, a *response, err error) (pause time.Duration, again bool) {
	if err != nil {
		return c.againAfterLoss(e, err)
	}
	if !hasNoTime(a.StatusCode) && a.StatusCode != http.StatusLocked { // by an upload whose end the server has yet to see
		return 0, false
	}
	after, said := parseRetryAfter(a.Header.Get("Retry-After"), time.Now())
	return c.againAfterRefusal(e, a.StatusCode, after, said)
}

// againAfterLoss is again for a request that was not answered. A server that has
// answered before may be restarting, so it is waited for; one that never has is
// taken to be down.
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

// againAfterRefusal is again for a request that the server has no time for. If it has
// said when to come again, that counts; if not, and a transfer is under way, it may be
// a proxy whose server is gone. An upload under way may have locked itself out, as long
// as the server has not noticed that its last connection is gone.
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

// backOff returns how long to wait after so many tries: by half more or less than what
// doubles with each, up to most. It is random, so that many who were cut off together
// do not come back together.
func (c *Client) backOff(tries int, most time.Duration) time.Duration {
	d := min(c.pause<<min(tries-1, 10), most)
	return d/2 + rand.N(d)
}

// isAway reports whether a status is that of a proxy, or a server, for want of another
// that may be back soon.
func isAway(code int) bool {
	return code == http.StatusBadGateway || code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout
}

// hasNoTime reports whether a status asks to come again later: that of a server that is
// away, or that is asked too often.
func hasNoTime(code int) bool { return isAway(code) || code == http.StatusTooManyRequests }
