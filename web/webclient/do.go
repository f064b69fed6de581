package webclient

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/haul-project/haul/internal/rate"
)

// send sends a request once, and returns the answer when its headers have arrived.
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
	a.timer = time.AfterFunc(cmp.Or(k.patience, c.config.AnswerTimeout), func() { a.cancel(ErrStalled) })
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
	if k.own && c.conns.http2.Load() { // over HTTP/1.1, each request has its own connection anyway
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

// wasReached records that the server can be reached.
func (c *Client) wasReached() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reached = true
}

// ask sends a request that changes nothing, and returns its answer. It repeats the request if the
// connection is lost or, after the time that the server names, if the server is too busy.
func (c *Client) ask(ctx context.Context, k request) (*response, error) {
	return c.askFor(ctx, new(attempts), k)
}

// askFor is like ask, but counts the attempts in e, which several requests may share.
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

// sendAs sends a request, and logs in if the server requires it.
func (c *Client) sendAs(ctx context.Context, k request) (*response, error) {
	if err := c.account.early(ctx, c.base.Host); err != nil {
		return nil, err
	}
	_, _, had := c.account.known()
	a, err := c.send(ctx, k)
	if err != nil || a.StatusCode != http.StatusUnauthorized || !sameOrigin(a.Request.URL, c.base) {
		return a, err
	}
	if k.body != nil && !k.body.rewind() {
		return a, nil
	}
	ok, err := c.account.login(ctx, had, c.base.Host, a.Header.Values("WWW-Authenticate"))
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
