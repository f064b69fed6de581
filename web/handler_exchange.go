package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/internal/shares"
	"github.com/haul-project/haul/store"
)

const (
	// maxAgent and maxLogged bound the text of a client that is logged, in bytes: the User-Agent,
	// and the method, target and ranges. Such text may contain anything.
	maxAgent  = 200
	maxLogged = 200
)

// Counters returns the current values of the counters.
func (h *Handler) Counters() Counters {
	c := &h.state.counts
	return Counters{
		Active: c.active.Load(), Requests: c.requests.Load(), Refused: c.refused.Load(), Failed: c.failed.Load(),
		Logins: c.logins.Load(), Failures: c.failures.Load(), Sent: c.sent.Load(), Received: c.received.Load(),
	}
}

// maxFields is how many header fields an answer can have without another allocation.
const maxFields = 12

// An exchange is one request and the state of its answer.
type exchange struct {
	Exchange
	h *Handler
	w http.ResponseWriter
	r *http.Request

	acct     *Account
	endLife  func()        // undoes endWith; nil if endWith was not called
	payer    payer         // the key of throttle in handlerState.payers
	throttle *rate.Pair    // the rate limit of the account or the source; nil if neither has one
	source   shares.Source // the key in handlerState.open and handlerState.listed
	opened   bool          // the request is counted in handlerState.open
	listed   int           // how many entries are counted in handlerState.listed for the request
	name     string        // the name in the store; "" if the target is not a valid name
	dir      bool          // the target ends in a slash

	values [maxFields]string // the values of header fields: a slice for each would need an allocation
	used   int
}

func (h *Handler) begin(w http.ResponseWriter, r *http.Request) *exchange {
	h.state.counts.active.Add(1)
	x := &exchange{h: h, w: w, r: r}
	x.Began = time.Now()
	x.Peer, _ = netip.ParseAddrPort(r.RemoteAddr)
	x.Local, _ = r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	x.Proto, x.TLS, x.Method = r.Proto, r.TLS != nil, cut(r.Method, maxLogged)
	x.Name = cut(r.RequestURI, maxLogged)
	x.Agent = cut(r.UserAgent(), maxAgent)
	x.Size = -1
	if r.ContentLength != 0 {
		// Set a read deadline, because net/http reads the rest of the content before it answers, and
		// the peer may never send that rest.
		x.readBy(x.Began.Add(h.stall()))
	}
	if len(r.TransferEncoding) > 0 && r.ProtoMajor == 1 {
		// The request may also have had a Content-Length, which net/http does not report. In that
		// case a server must close the connection (RFC 9112 §6.1), because a proxy may disagree
		// about where the next request begins.
		x.set("Connection", "close")
	}
	// Users may have uploaded the file. So a browser must not guess the type from the content.
	x.set("X-Content-Type-Options", "nosniff")
	return x
}

// endWith makes the request end when the context `life` is cancelled: waits of the request then
// return, and its reads and writes fail.
func (x *exchange) endWith(life context.Context) {
	ctx, cancel := context.WithCancelCause(x.ctx())
	x.r = x.r.WithContext(ctx)
	cut := make(chan struct{})
	stop := context.AfterFunc(life, func() {
		defer close(cut)
		cancel(fmt.Errorf("%w: %w", ErrLoginEnded, context.Cause(life)))
		x.cutOff()
	})
	x.endLife = func() {
		if !stop() {
			<-cut // cutOff must have returned before the connection serves its next request
		}
		cancel(nil)
	}
}

// cutOff makes all reads and writes of the request fail, by deadlines that have passed.
func (x *exchange) cutOff() {
	c, past := http.NewResponseController(x.w), time.Unix(1, 0)
	_ = c.SetReadDeadline(past)
	_ = c.SetWriteDeadline(past)
}

// end releases what the request holds, counts it and calls Handler.Ended. It is deferred, so that
// it also runs when a store panics.
func (x *exchange) end() {
	if x.endLife != nil {
		x.endLife()
	}
	if x.opened {
		x.h.state.open.Give(x.source, 1)
	}
	x.h.state.listed.Give(x.source, x.listed)
	if x.acct != nil && x.acct.Close != nil {
		x.acct.Close()
	}
	if x.throttle != nil {
		x.h.state.payers.Leave(x.payer)
	}
	x.Duration = time.Since(x.Began)
	if x.Status == 0 && x.Err == nil {
		x.Err = errPanic
	}
	switch why := x.ended(); {
	case x.Err == nil, why == nil, errors.Is(x.Err, why):
	case errors.Is(why, ErrLoginEnded):
		x.Err = why // cutOff caused the failure
	default:
		x.Err = fmt.Errorf("%w: %w", why, x.Err)
	}
	c := &x.h.state.counts
	c.active.Add(-1)
	c.requests.Add(1)
	switch {
	case errors.Is(x.Err, ErrGivenUp):
	case x.Status >= 500, x.Status == 0, x.Status < 400 && x.Err != nil:
		c.failed.Add(1)
	case x.Status >= 400:
		c.refused.Add(1)
	}
	if x.h.Ended != nil {
		x.h.Ended(&x.Exchange)
	}
}

// started calls Handler.Started, because a file is about to be sent or received.
func (x *exchange) started() {
	if x.h.Started != nil {
		x.h.Started(&x.Exchange)
	}
}

func (x *exchange) ctx() context.Context { return x.r.Context() }

// set sets a header field of the answer. The key must be in its canonical form.
func (x *exchange) set(key, value string) {
	if x.used == len(x.values) {
		x.w.Header()[key] = []string{value}
		return
	}
	x.values[x.used] = value
	x.w.Header()[key] = x.values[x.used : x.used+1 : x.used+1]
	x.used++
}

// vary adds the name of a request field to Vary, because the answer depends on that field (RFC 9110
// §12.5.5).
func (x *exchange) vary(field string) {
	if had := x.w.Header().Get("Vary"); had != "" {
		field = had + ", " + field
	}
	x.set("Vary", field)
}

// writeHeader sends the status and the header fields.
func (x *exchange) writeHeader(status int) {
	x.Status = status
	ours := time.Duration(0)
	if x.r.ContentLength != 0 && x.r.ProtoMajor == 1 {
		ours = x.h.stall() // net/http first reads the rest of the content, until the read deadline
	}
	x.patient(ours)
	x.w.WriteHeader(status)
}

// patient sets the deadline for the next write. From now, this side has the time `ours` before it
// sends the data, and then the peer has the stall timeout to receive it.
//
// The deadline is never removed here. net/http sends the last bytes of an answer after the handler
// has returned. Afterwards it removes the deadline itself or, over HTTP/2, the stream is over. No
// deadline is set before there is something to write: over HTTP/2, a deadline that passes ends the
// request even if nothing is being written.
func (x *exchange) patient(ours time.Duration) {
	// If this fails, the ResponseWriter supports no deadlines, and has its own way to end requests
	// that hang.
	_ = http.NewResponseController(x.w).SetWriteDeadline(time.Now().Add(ours + x.h.stall()))
	x.staysCut()
}

// readBy sets the deadline for the next reads from the peer.
func (x *exchange) readBy(deadline time.Time) {
	_ = http.NewResponseController(x.w).SetReadDeadline(deadline)
	x.staysCut()
}

// staysCut is called after each change of a deadline. If the login has ended, it calls cutOff again,
// because the new deadline has undone the earlier call.
func (x *exchange) staysCut() {
	if x.endLife != nil && errors.Is(x.ended(), ErrLoginEnded) {
		x.cutOff()
	}
}

// pause waits for d between two writes of an answer, unless the request ends first. It also extends
// the write deadline by d, so that the peer does not lose this time.
func (x *exchange) pause(d time.Duration) error {
	if d > 0 {
		x.patient(d)
	}
	return x.sleep(d)
}

// reads reports whether the method is GET or HEAD.
func (x *exchange) reads() bool { return x.r.Method == http.MethodGet || x.r.Method == http.MethodHead }

// bodiless reports whether the answer has no content because the method is HEAD.
func (x *exchange) bodiless() bool { return x.r.Method == http.MethodHead }

// addSent and addReceived count bytes, and return how long the request must wait because of the
// rates.
func (x *exchange) addSent(n int64) time.Duration {
	x.sent.Add(n)
	x.h.state.counts.sent.Add(n)
	return x.take(toClient, time.Now(), n)
}

func (x *exchange) addReceived(n int64) time.Duration {
	x.received.Add(n)
	x.h.state.counts.received.Add(n)
	return x.take(fromClient, time.Now(), n)
}

// toClient and fromClient select a direction. Each direction has its own rate.
func toClient(p *rate.Pair) *rate.Bucket   { return &p.Sent }
func fromClient(p *rate.Pair) *rate.Bucket { return &p.Received }

// take counts n bytes against the rates that apply to the request, and returns how long the request
// must wait because of them.
func (x *exchange) take(way func(*rate.Pair) *rate.Bucket, now time.Time, n int64) time.Duration {
	wait := way(&x.h.state.rate).Take(now, int(n))
	if x.throttle != nil {
		wait = max(wait, way(x.throttle).Take(now, int(n)))
	}
	return wait
}

// waitForRate waits until the rates let more bytes through. Small files are charged after they are
// sent; without this wait, a client that reconnects for each file would never be limited.
func (x *exchange) waitForRate() error {
	way := toClient
	switch x.r.Method {
	case http.MethodGet:
	case http.MethodPut:
		way = fromClient
	default:
		return nil
	}
	now := time.Now()
	wait := x.take(way, now, 0)
	if wait > 0 && x.r.ContentLength != 0 {
		// The stall timeout of the content starts after the wait.
		x.readBy(now.Add(wait).Add(x.h.stall()))
	}
	return x.sleep(wait)
}

// slowest returns the lowest rate that applies to the request, in bytes a second, and 0 without a
// rate limit.
func (x *exchange) slowest() int64 {
	r := max(x.h.Rate, 0)
	if x.throttle == nil {
		return r
	}
	if a := x.throttle.Sent.Rate(); r == 0 || a < r {
		return a
	}
	return r
}

// sleep waits for d, unless the request ends first.
func (x *exchange) sleep(d time.Duration) error { return rate.Sleep(x.ctx(), d) }

// reply answers with a status and a line of text.
func (x *exchange) reply(status int, text string) {
	x.set("Content-Type", "text/plain; charset=utf-8")
	x.set("Content-Length", itoa(int64(len(text)+1)))
	x.writeHeader(status)
	if !x.bodiless() {
		// If this fails, the connection is lost, and the client does not get the text.
		_, _ = io.WriteString(x.w, text+"\n")
	}
}

// retryAfter is how many seconds a client should wait before it tries again if the server is busy,
// and settleAfter if a file has just changed: after that time, another change would show in the
// file's time.
const (
	retryAfter  = 1
	settleAfter = 2
)

// fail answers with an error. The caller must not have sent any part of another answer before.
func (x *exchange) fail(err error) {
	why := x.ended()
	switch canceled := errors.Is(err, context.Canceled) && errors.Is(x.ctx().Err(), context.Canceled); {
	case errors.Is(why, ErrLoginEnded):
		err = why
	case canceled:
		err = fmt.Errorf("%w: %w", cmp.Or(why, ErrGivenUp), err)
	}
	status, text := statusOf(x.r.Method, err)
	x.Err = err
	for _, key := range [...]string{"Content-Encoding", "Etag", "Last-Modified"} {
		delete(x.w.Header(), key) // these fields describe the file, which is not sent
	}
	if status == http.StatusServiceUnavailable || status == http.StatusLocked {
		after := retryAfter
		if errors.Is(err, store.ErrUnsettled) {
			after = settleAfter
		}
		x.set("Retry-After", strconv.Itoa(after))
	}
	x.reply(status, text)
}

// ended returns why this side ended the request, or nil if it did not.
func (x *exchange) ended() error {
	switch cause := context.Cause(x.ctx()); {
	case errors.Is(cause, http.ErrServerClosed):
		return ErrShutdown
	case errors.Is(cause, ErrLoginEnded):
		return cause
	}
	return nil
}

// abort cuts off an answer that has begun, so that the client does not take the received part for
// the whole. It does so by a panic that net/http recovers.
func (x *exchange) abort(err error) {
	x.Err = err
	panic(http.ErrAbortHandler)
}
