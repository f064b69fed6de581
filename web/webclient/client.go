package webclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/servertext"
	"github.com/haul-project/haul/store"
)

// firstPause is the mean pause before the second try. The pause doubles with each later try, up to
// maxPause. If a connection was lost, it is at most maxLossPause, so that the client soon notices
// that the server is back.
const (
	firstPause   = 200 * time.Millisecond
	maxPause     = 10 * time.Second
	maxLossPause = 3 * time.Second
)

// Bounds of a client.
const (
	// maxRedirects is how many redirects are followed for one request.
	maxRedirects = 10

	// maxHeader is how many bytes the headers of an answer may have.
	maxHeader = 64 << 10

	// maxIdle is how long an idle connection stays open.
	maxIdle = 30 * time.Second
)

// A Client is a [store.Store] on a web server, over HTTP/1.1 and HTTP/2:
//
//	c, err := webclient.New("https://example.com/images/", webclient.Config{})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	f, err := c.Open(ctx, "disk.raw")
//
// Opening a file requests the whole of it at once. If the transfer takes long and the server
// supports ranges (RFC 9110 §14), FetchTo continues over several connections, each of which
// requests the next part; their number adapts to the rate. If-Range on all requests ensures that
// the parts belong to one version of the file: by a strong ETag, or else by a Last-Modified that is
// strong (RFC 9110 §8.8). If the server sends neither, the file is read over one connection. If
// this connection is lost, the transfer is not resumed, because the rest could belong to another
// version.
//
// An upload is a PUT. Only Commit sends its last byte, so the file does not appear under its name
// before Commit. HTTP cannot make directories, rename files or set modes. Hence a Client is not a
// [store.Tree], but package treecopy copies from it and to it. Directories are listed if the server
// does so in JSON, as haul, nginx (autoindex_format json) and Caddy do, or by an HTML page of
// Apache, nginx, lighttpd or Python's http.server.
//
// Its methods may be called from any goroutine.
type Client struct {
	base    *url.URL // the URL of the root, which ends in a slash
	config  Config
	life    context.Context // the context of all requests, which Close cancels
	end     context.CancelCauseFunc
	any     *http.Client // uses HTTP/2 if the server supports it
	own     *http.Client // uses only HTTP/1.1, so that each request has its own connection
	conns   *connLimit
	account account
	guard   *redirectGuard // nil without Config.Redirect
	pause   time.Duration  // firstPause, except in tests

	mu      sync.Mutex
	first   *response // the answer for config.First that Stat has begun to read; guarded by mu
	stated  bool      // Stat has already requested config.First; guarded by mu
	reached bool      // the server has answered before, or received something; guarded by mu
	parts   int       // 1 if the server accepts uploads in parts, -1 if not, 0 if unknown; guarded by mu

	// anew holds names whose next upload starts from scratch, because their last upload was
	// discarded; guarded by mu
	anew map[string]bool
}

// New returns a client for the files below an http or https URL. It does not connect yet. A user or
// a password in the URL is refused: see [Config].
func New(root string, c Config) (*Client, error) {
	base, err := url.Parse(root)
	if err != nil {
		// The error's text has the URL, which may hold a secret.
		return nil, fmt.Errorf("webclient: %w", errors.Unwrap(err))
	}
	switch {
	case base.Scheme != "http" && base.Scheme != "https":
		return nil, fmt.Errorf("webclient: %w: a URL of %q; it must be http or https", fs.ErrInvalid, base.Scheme)
	case base.Hostname() == "":
		return nil, fmt.Errorf("webclient: %w: the URL has no host", fs.ErrInvalid)
	case base.User != nil:
		return nil, fmt.Errorf("webclient: %w: a user does not belong in the URL, but in the configuration", fs.ErrInvalid)
	case base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return nil, fmt.Errorf("webclient: %w: the root's URL has a query or a fragment", fs.ErrInvalid)
	}
	if !strings.HasSuffix(base.Path, "/") {
		base = base.JoinPath("/")
	}
	for _, d := range []struct {
		field *time.Duration
		usual time.Duration
	}{
		{&c.ConnectTimeout, defaultConnectTimeout}, {&c.AnswerTimeout, defaultAnswerTimeout}, {&c.StallTimeout, defaultStallTimeout},
		{&c.AbsenceTimeout, DefaultAbsenceTimeout},
	} {
		if *d.field <= 0 {
			*d.field = d.usual
		}
	}
	if c.Conns <= 0 {
		c.Conns = defaultConns
	}
	c.Parts = cmp.Or(c.Parts, defaultParts)
	c.UserAgent = cmp.Or(c.UserAgent, "haul")
	client := &Client{base: base, config: c, pause: firstPause, conns: newConnLimit(c.Conns), anew: map[string]bool{}}
	client.life, client.end = context.WithCancelCause(context.Background())
	client.account.config = &client.config
	if c.Redirect != nil {
		client.guard = &redirectGuard{base: base, internal: isInternal, public: map[string]bool{}}
	}
	client.any, client.own = client.httpClient(true), client.httpClient(false)
	return client, nil
}

// httpClient returns an HTTP client with or without HTTP/2.
func (c *Client) httpClient(http2 bool) *http.Client {
	usual := &net.Dialer{Timeout: c.config.ConnectTimeout}
	dial := dialer(c.config.Dial)
	switch {
	case c.guard != nil:
		dial = c.guard.dialer(usual, dial)
	case dial == nil:
		dial = usual.DialContext
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(http2)
	t := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            asked(dial),
		TLSHandshakeTimeout:    c.config.ConnectTimeout,
		Protocols:              protocols,
		DisableCompression:     true, // a file must arrive unchanged: RFC 9110 §12.5.3
		MaxResponseHeaderBytes: maxHeader,
		MaxConnsPerHost:        c.config.Conns,
		MaxIdleConnsPerHost:    c.config.Conns,
		IdleConnTimeout:        maxIdle,
		ExpectContinueTimeout:  time.Second, // some servers never send 100 Continue: RFC 9110 §10.1.1
		WriteBufferSize:        64 << 10,
	}
	if c.config.TLS != nil {
		t.TLSClientConfig = c.config.TLS.Clone()
	}
	return &http.Client{Transport: &transport{c, t}, CheckRedirect: c.checkRedirect}
}

// Close ends all requests and closes the connections.
func (c *Client) Close() error {
	c.end(fs.ErrClosed)
	c.mu.Lock()
	first := c.first
	c.first = nil
	c.mu.Unlock()
	if first != nil {
		first.close()
	}
	for _, h := range []*http.Client{c.any, c.own} {
		h.CloseIdleConnections()
	}
	return nil
}

// URL returns the URL of a name, without the configuration's query.
func (c *Client) URL(name string) string {
	u := *c.urlOf(name, false)
	u.RawQuery = ""
	return u.String()
}

// urlOf returns the URL of a name or, with slash, of the directory with that name.
func (c *Client) urlOf(name string, slash bool) *url.URL {
	u := *c.base
	u.RawQuery = c.config.Query
	if name == "." {
		return &u
	}
	escaped := c.base.EscapedPath() + escapeName(name)
	u.Path += name
	if slash {
		u.Path += "/"
		escaped += "/"
	}
	u.RawPath = escaped
	return &u
}

// escapeName escapes a name for the path of a URL. It escapes a plus too, because some servers
// decode it as a space.
func escapeName(name string) string {
	elements := strings.Split(name, "/")
	for i, e := range elements {
		elements[i] = strings.ReplaceAll(url.PathEscape(e), "+", "%2B")
	}
	return strings.Join(elements, "/")
}

// checkName returns an error if the name is invalid in a store, or if ctx has ended.
func checkName(ctx context.Context, name string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !store.ValidName(name) {
		return fs.ErrInvalid
	}
	return nil
}

// fail adds the operation and the URL to an error. They replace the operation and the path of a
// [fs.PathError].
func (c *Client) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return &fs.PathError{Op: op, Path: c.URL(name), Err: onServer(err)}
}

// checkRedirect returns an error for a redirect that is not safe to follow (RFC 9110 §15.4).
func (c *Client) checkRedirect(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return redirectError{fmt.Errorf("%w: more than %d redirects", ErrProtocol, maxRedirects)}
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return redirectError{fmt.Errorf("%w: a redirect to a URL of %q", ErrProtocol, servertext.Cut(req.URL.Scheme))}
	case req.URL.Scheme == "http" && via[len(via)-1].URL.Scheme == "https":
		return redirectError{fmt.Errorf("%w: a redirect from https to http://%s, where others can read and change the file", ErrProtocol, servertext.Cut(req.URL.Host))}
	case req.Method != via[0].Method:
		// 301, 302 and 303 turn a PUT or a DELETE into a GET, whose answer would be taken for the
		// answer to the original request.
		return redirectError{fmt.Errorf("%w: a redirect that turns %s into %s", ErrProtocol, via[0].Method, req.Method)}
	case c.config.Redirect == nil || sameOrigin(req.URL, c.base) || isUpgrade(c.base, req.URL):
		return nil
	}
	if err := c.config.Redirect(req.URL); err != nil {
		return redirectError{fmt.Errorf("%w: %w", ErrProtocol, err)}
	}
	return nil
}

// sameOrigin reports whether two URLs belong to one server (RFC 6454 §5).
func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// A request describes a request to the server. It may be sent several times.
type request struct {
	method   string
	url      *url.URL
	header   http.Header
	body     *putBody      // the content of a PUT, or nil
	own      bool          // the request needs its own connection
	conn     *connSlot     // the slot that the request uses; nil means that send has to wait for a free one
	patience time.Duration // the timeout for the answer's headers; 0 means Config.AnswerTimeout
}

// A response is an answer whose headers have arrived. Reading its body fails if nothing arrives for
// too long; time without a pending read does not count.
type response struct {
	*http.Response
	ctx    context.Context
	cancel context.CancelCauseFunc
	unlink func() bool
	conn   *connSlot
	timer  *time.Timer
	stall  time.Duration
}

// Read reads from the body. It fails with ErrStalled if nothing arrives within the time a.stall.
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

// close releases the answer. It may be called before the answer was read to its end, but then the
// connection cannot be reused.
func (a *response) close() {
	_ = a.Body.Close()
	a.timer.Stop()
	a.unlink()
	a.cancel(nil)
	a.conn.release()
}

// follow cancels the answer when ctx ends, and no longer when its previous context ends.
func (a *response) follow(ctx context.Context) {
	a.unlink()
	a.unlink = context.AfterFunc(ctx, func() { a.cancel(context.Cause(ctx)) })
}

// A transport adds the client's header fields to each request.
type transport struct {
	c *Client
	*http.Transport
}

// RoundTrip sends one request. It sends the login to the client's own server only, not to another
// one that a redirect leads to. It sends no Referer, which may hold a secret.
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
	if t.c.guard != nil {
		ctx, err := t.c.guard.enter(r)
		if err != nil {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, err
		}
		r = r.WithContext(ctx)
	}
	return t.Transport.RoundTrip(r)
}
