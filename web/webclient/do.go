package webclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/haul-project/haul/internal/rate"
)

// A request is what is asked of the server.
type request struct {
	method   string
	url      *url.URL
	header   http.Header
	body     *putBody      // of a PUT, or nil
	own      bool          // on a connection of its own
	conn     *connSlot     // the connection that it may take; nil to wait for one
	patience time.Duration // until the answer's headers; 0 means the configuration's
}

// A response is an answer whose headers have come. Its body ends by an error
// if nothing of it comes for too long; time in which it is not being read does not
// count.
type response struct {
	*http.Response
	ctx    context.Context
	cancel context.CancelCauseFunc
	unlink func() bool
	conn   *connSlot
	timer  *time.Timer
	stall  time.Duration
}

// Read reads from the body.
func (a *response) Read(p []byte) (int, error) {
	a.timer.Reset(a.stall)
	n, err := a.Body.Read(p)
	a.timer.Stop()
	switch {
	case err == nil || err == io.EOF:
	case a.ctx.Err() != nil:
		err = context.Cause(a.ctx)
	default:
		err = plainError(err)
	}
	return n, err
}

// close ends the answer, wherever it is. One that was read to its end leaves its
// connection to others.
func (a *response) close() {
	_ = a.Body.Close()
	a.timer.Stop()
	a.unlink()
	a.cancel(nil)
	a.conn.release()
}

// follow has the answer end with another context than before.
func (a *response) follow(ctx context.Context) {
	a.unlink()
	a.unlink = context.AfterFunc(ctx, func() { a.cancel(context.Cause(ctx)) })
}

// A transport sends requests with what this client has to say in each.
type transport struct {
	c *Client
	*http.Transport
}

// RoundTrip sends one request. It sends the login to the client's own server only,
// not to another that a redirect leads to. It sends no Referer, which may be a
// secret.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	r := new(http.Request)
	*r = *req
	r.Header = req.Header.Clone()
	r.Header.Del("Referer")
	r.Header.Del("Authorization")
	r.Header.Set("User-Agent", t.c.config.UserAgent)
	if sameOrigin(r.URL, t.c.base) {
		if user, password, ok := t.c.account.known(); ok {
			r.SetBasicAuth(user, password)
		}
	}
	return t.Transport.RoundTrip(r)
}

// send sends a request, once.
func (c *Client) send(ctx context.Context, k request) (*response, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	conn := k.conn
	if conn == nil || !conn.held.Load() {
		var err error
		if conn, err = c.conns.take(ctx, k.own); err != nil {
			return nil, err
		}
	}
	a := &response{conn: conn, stall: c.config.StallTimeout}
	a.ctx, a.cancel = context.WithCancelCause(c.life)
	a.unlink = context.AfterFunc(ctx, func() { a.cancel(context.Cause(ctx)) })
	patience := k.patience
	if patience == 0 {
		patience = c.config.AnswerTimeout
	}
	a.timer = time.AfterFunc(patience, func() { a.cancel(ErrStalled) })
	end := func() {
		a.timer.Stop()
		a.unlink()
		a.cancel(nil)
		conn.release()
	}
	req, err := http.NewRequestWithContext(a.ctx, k.method, k.url.String(), nil)
	if err != nil {
		end()
		return nil, err
	}
	if k.header != nil {
		req.Header = k.header.Clone()
	}
	req.Header.Set("Accept-Encoding", "identity")
	if k.body != nil {
		k.body.attach(req, a.timer, c.config.StallTimeout)
	}
	web := c.any
	if k.own && c.conns.http2.Load() { // with HTTP/1.1 each request has one
		web = c.own
	}
	resp, err := web.Do(req)
	if err != nil {
		if a.ctx.Err() != nil {
			err = context.Cause(a.ctx)
		}
		end()
		return nil, plainError(err)
	}
	a.timer.Stop()
	a.Response = resp
	conn.answered(resp.ProtoMajor)
	c.wasReached()
	return a, nil
}

// wasReached notes that there is a server.
func (c *Client) wasReached() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reached = true
}

// wrongAnswers are words that package http has for answers that are none, rather
// than for connections that are lost.
var wrongAnswers = []string{
	"malformed", "headers exceeded", "larger than advertised", "too many 1xx", "bad Content-Length", "multiple Content-Length",
	"unsupported transfer encoding", "in chunk length", "chunk length too large", "trailer",
}

// plainError takes away what package http puts around an error: the URL, which
// may hold a secret. It recognizes wrong answers by their text, as http has no types
// for them.
func plainError(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	text := err.Error()
	for _, words := range wrongAnswers {
		if strings.Contains(text, words) {
			return fmt.Errorf("%w: %w", ErrProtocol, err)
		}
	}
	return err
}

// ask sends a request that changes nothing until it is answered by a status that
// means something. It sends it again if it is lost, or, after the time that the
// server names, if the server has no time for it.
func (c *Client) ask(ctx context.Context, k request) (*response, error) {
	return c.askFor(ctx, new(attempts), k)
}

// askFor is ask for an effort that may have more to it.
func (c *Client) askFor(ctx context.Context, e *attempts, k request) (*response, error) {
	for {
		a, err := c.sendAs(ctx, k)
		pause, again := c.again(e, a, err)
		if !again {
			return a, lost(err, e.tries)
		}
		if a != nil {
			a.close()
		}
		if err := rate.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// sendAs sends a request, and logs in if the server wants that.
func (c *Client) sendAs(ctx context.Context, k request) (*response, error) {
	if err := c.account.early(ctx, c.base.Host); err != nil {
		return nil, err
	}
	version := c.account.version()
	a, err := c.send(ctx, k)
	if err != nil || a.StatusCode != http.StatusUnauthorized || !sameOrigin(a.Request.URL, c.base) {
		return a, err
	}
	if k.body != nil && !k.body.rewind() {
		return a, nil
	}
	ok, err := c.account.login(ctx, version, c.base.Host, a.Header.Values("WWW-Authenticate"))
	if err != nil || ok {
		a.close()
	}
	if err != nil {
		return nil, err
	}
	if !ok {
		return a, nil
	}
	return c.send(ctx, k)
}

// isLoss reports whether an error may be gone if the same is tried again.
func isLoss(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) && !isTimeout(err) ||
		errors.Is(err, ErrProtocol) || errors.Is(err, ErrChanged) || errors.Is(err, ErrEncoded) || errors.Is(err, fs.ErrClosed) {
		return false
	}
	_, redirect := errors.AsType[redirectError](err)
	_, lookup := errors.AsType[*net.DNSError](err)
	_, login := errors.AsType[loginError](err)
	_, refused := errors.AsType[*StatusError](err)
	return !redirect && !lookup && !login && !refused && !IsCertificateError(err) && !isTLS(err)
}

// isTimeout reports whether an error is of the network's own time: a connection
// that was not made by then is also a DeadlineExceeded.
func isTimeout(err error) bool {
	_, ok := errors.AsType[*net.OpError](err)
	return ok
}

// IsCertificateError reports whether an error is that a server's certificate, or
// its name, is not to be trusted.
func IsCertificateError(err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok
}

// isTLS reports whether two sides could not agree on how to speak TLS, or on whether
// to. The same would come of it another time.
func isTLS(err error) bool {
	_, record := errors.AsType[tls.RecordHeaderError](err)
	alert, ok := errors.AsType[*net.OpError](err)
	return record || errors.Is(err, http.ErrSchemeMismatch) || ok && alert.Op == "remote error" && isDecision(alert.Err) ||
		err != nil && strings.HasPrefix(err.Error(), "tls: server ") // has chosen what it was not offered
}

// decisions are what the alerts of RFC 8446 §6.2 are called by package tls, which has
// no type for them: those by which a server says that it will not have this client. The
// others may be of one connection alone, as that its bytes were changed on the way.
var decisions = []string{
	"handshake failure", "certificate", "access denied", "protocol version not supported", "insufficient security level",
	"unrecognized name", "no application protocol", "unknown PSK identity", "encrypted client hello required",
}

// isDecision reports whether an alert of TLS is one of the decisions.
func isDecision(alert error) bool {
	return slices.ContainsFunc(decisions, func(words string) bool { return strings.Contains(alert.Error(), words) })
}

// lost says that a connection is lost for good, if that is what err is.
func lost(err error, tries int) error {
	switch {
	case !isLoss(err), errors.Is(err, ErrLost):
		return err
	case errors.Is(err, syscall.ECONNREFUSED) && addressOf(err) != "":
		return refusedError{addressOf(err), err}
	case tries > 1:
		return fmt.Errorf("%w, %d times in a row: %w", ErrLost, tries, err)
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// A refusedError says that an address refuses connections.
type refusedError struct {
	addr string
	err  error
}

func (e refusedError) Error() string   { return "nothing listens at " + e.addr }
func (e refusedError) Unwrap() []error { return []error{ErrLost, e.err} }

// addressOf returns the address that an error of the network is about; "" if it does
// not say.
func addressOf(err error) string {
	if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Addr != nil {
		return dial.Addr.String()
	}
	return ""
}

// lostUnguarded says that a connection is lost, and that nothing shows whether the
// rest of the file would be of the same version.
func lostUnguarded(err error) error {
	return fmt.Errorf("%w; the rest is not asked for, as it could be of another version: the server names none, or the file was just written", lost(err, 1))
}
