package s3

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/internal/servertext"
)

const (
	maxHeader = 64 << 10         // most bytes of the headers of an answer
	maxIdle   = 30 * time.Second // how long a connection is kept without being used

	// maxAnswer and maxTags limit an answer that is not file content. Such an answer is XML, which
	// package minio reads into memory. The largest is a page of a listing: 1000 keys of 1024 bytes,
	// with up to 20 XML elements for each.
	maxAnswer = 4 << 20
	maxTags   = 48 << 10
)

// A transport sends requests, and cancels those that make no progress.
type transport struct {
	config  *Config
	life    context.Context // context that ends all requests
	http    *http.Transport
	pace    pace
	reached atomic.Bool  // the server has answered at least once
	trip    atomic.Int64 // shortest time from a request to its answer, in nanoseconds; 0 before the first answer
}

func newTransport(c *Config, life context.Context) *transport {
	dial := c.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: c.ConnectTimeout}).DialContext
	}
	t := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dial,
		TLSHandshakeTimeout:    c.ConnectTimeout,
		DisableCompression:     true, // because files must arrive unchanged
		MaxResponseHeaderBytes: maxHeader,
		MaxConnsPerHost:        c.Conns,
		MaxIdleConnsPerHost:    c.Conns,
		IdleConnTimeout:        maxIdle,
		ExpectContinueTimeout:  time.Second,
		WriteBufferSize:        64 << 10,
		ReadBufferSize:         64 << 10,
	}
	if c.TLS != nil {
		t.TLSClientConfig = c.TLS.Clone()
	}
	made := &transport{config: c, life: life, http: t}
	made.pace.init(c.Conns)
	return made
}

// RoundTrip sends one request. It cancels the request and its answer when the store is closed, or
// when there is no progress for too long. Time in which the caller does not read the answer does
// not count.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	c := t.config
	ctx, cancel := context.WithCancelCause(req.Context())
	patience := c.AnswerTimeout
	if d, ok := ctx.Value(patienceKey{}).(time.Duration); ok {
		patience = max(patience, d)
	}
	x := &exchange{ctx: ctx, cancel: cancel, stall: c.StallTimeout}
	x.unlink = context.AfterFunc(t.life, func() { cancel(fs.ErrClosed) })
	// A request that waits for a connection waits for other requests, which have timers of their
	// own. So this timer does not run yet.
	x.timer = time.AfterFunc(math.MaxInt64, func() { cancel(ErrStalled) })
	var sent time.Time
	req = req.Clone(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		sent = time.Now()
		x.timer.Reset(patience)
	}}))
	req.Header.Set("User-Agent", c.UserAgent)
	if req.Body != nil && req.Body != http.NoBody {
		req.Body = &sentBody{x, req.Body, patience}
	}
	at, err := t.pace.begin(ctx)
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		x.end()
		return nil, err
	}
	resp, err := t.http.RoundTrip(req)
	t.pace.end(at, err == nil && isBusy(resp.StatusCode))
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		x.end()
		return nil, err
	}
	x.timer.Stop()
	t.noteTrip(time.Since(sent))
	t.reached.Store(true)
	if a, ok := ctx.Value(answerKey{}).(*answer); ok {
		*a = answer{method: req.Method, status: resp.StatusCode, came: time.Now(), after: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
		a.date, _ = http.ParseTime(resp.Header.Get("Date"))
		if to, err := resp.Location(); err == nil {
			a.leads = servertext.Cut(to.Scheme + "://" + to.Host) // the path and the query may contain a secret
		}
	}
	// Package minio accepts status 206 only for files.
	isFile := resp.StatusCode == http.StatusPartialContent || resp.StatusCode == http.StatusOK && ctx.Value(wholeKey{}) != nil
	resp.Body = &gotBody{x: x, ReadCloser: resp.Body, part: isFile}
	return resp, nil
}

// noteTrip keeps the shortest time that an answer took.
func (t *transport) noteTrip(d time.Duration) {
	for {
		least := t.trip.Load()
		if least != 0 && int64(d) >= least || t.trip.CompareAndSwap(least, int64(d)) {
			return
		}
	}
}

// An exchange is a request together with its answer.
type exchange struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	unlink func() bool
	timer  *time.Timer
	stall  time.Duration
}

func (x *exchange) end() {
	x.timer.Stop()
	x.unlink()
	x.cancel(nil)
}

// A sentBody is the body of a request while it is sent.
type sentBody struct {
	x *exchange
	io.ReadCloser
	patience time.Duration // longest wait for the answer, if it exceeds x.stall
}

// Read restarts the timer, because a call of Read means that the server has accepted the earlier
// data.
func (b *sentBody) Read(p []byte) (int, error) {
	b.x.timer.Reset(max(b.x.stall, b.patience))
	return b.ReadCloser.Read(p)
}

// A gotBody is the body of an answer while it is read.
type gotBody struct {
	x *exchange
	io.ReadCloser
	part bool // the body is file content, so its size is not limited

	bytes, tags int // bytes and XML elements received so far, unless part is set
}

// Read returns an error if no data arrives for too long, or if an answer that is not file content
// is too large.
func (b *gotBody) Read(p []byte) (int, error) {
	b.x.timer.Reset(b.x.stall)
	n, err := b.ReadCloser.Read(p)
	b.x.timer.Stop()
	if !b.part {
		b.bytes += n
		b.tags += bytes.Count(p[:n], []byte("<"))
		if b.bytes > maxAnswer || b.tags > maxTags {
			return 0, fmt.Errorf("%w: it has more than %d bytes, or %d tags, and is no part of a file", ErrProtocol, maxAnswer, maxTags)
		}
	}
	if err != nil && err != io.EOF && b.x.ctx.Err() != nil {
		err = context.Cause(b.x.ctx)
	}
	return n, err
}

// Close ends the exchange. If the answer was read to its end, the connection can be reused.
func (b *gotBody) Close() error {
	err := b.ReadCloser.Close()
	b.x.end()
	return err
}
