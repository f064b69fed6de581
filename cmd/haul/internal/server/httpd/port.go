package httpd

import (
	"cmp"
	"context"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/ports"
	"github.com/haul-project/haul/cmd/haul/internal/server/writebehind"
	"github.com/haul-project/haul/tcp"
	"github.com/haul-project/haul/web"
)

// A port serves HTTP or HTTPS on all addresses of that scheme.
type port struct {
	scheme  string
	asked   []string // the configured addresses; after Listen, that of each socket, or "" for a socket from systemd
	accept  tcp.Server
	failed  ports.FailedConns // logs handshakes that fail
	sockets []*tcp.Socket

	loopback []netip.AddrPort // the addresses of sockets that only this machine can reach

	// HTTP/1 and HTTP/2 have separate servers, because their connections are shut down in different
	// ways: see drain.
	http1, http2 http.Server

	// shutdown cancels the contexts of all requests, with a cause. active is the number of requests
	// under way.
	shutdown context.CancelCauseFunc
	active   atomic.Int64

	// silent maps each HTTP/2 connection that has not sent a request yet to the time when it was
	// accepted.
	silent sync.Map

	// http1Conns maps each HTTP/1 connection to an atomic.Bool that says whether the connection is
	// idle, that is, waits for another request.
	http1Conns sync.Map

	ending     atomic.Bool   // set when the shutdown begins: from then on, each HTTP/1 answer closes its connection
	closesIdle atomic.Bool   // set later in the shutdown: from then on, idle HTTP/1 connections are closed
	idleGrace  time.Duration // if it is not 0, replaces the constant idleGrace; only for tests
	stall      time.Duration // how long HTTP/2 data may wait for the client to read; 0 means web.DefaultStall
}

// open configures the two HTTP servers of the port. They write their own errors to `errors`.
func (p *port) open(handler http.Handler, errors io.Writer) {
	requests, shutdown := context.WithCancelCause(context.Background())
	p.shutdown = shutdown
	for _, s := range []*http.Server{&p.http1, &p.http2} {
		s.BaseContext = func(net.Listener) context.Context { return requests }
		s.ReadHeaderTimeout = cmp.Or(s.ReadHeaderTimeout, headerTime)
		s.IdleTimeout, s.MaxHeaderBytes = idleTime, headerBytes
		s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams}
		s.ErrorLog = stdlog.New(errors, "", 0)
		s.DisableGeneralOptionsHandler = true
	}
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.active.Add(1)
		defer p.active.Add(-1)
		handler.ServeHTTP(w, r)
	})
	p.http2.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := r.Context().Value(connKey{}).(*writebehind.Conn)
		p.silent.Delete(c)
		r.TLS = c.TLS()
		counted.ServeHTTP(w, r)
	})
	p.http2.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		p.silent.Store(c, time.Now())
		return context.WithValue(ctx, connKey{}, c)
	}
	p.http2.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			p.silent.Delete(c)
		}
	}
	p.http1.ConnState = func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			p.http1Conns.Store(c, new(atomic.Bool))
		case http.StateClosed, http.StateHijacked:
			p.http1Conns.Delete(c)
		case http.StateActive, http.StateIdle:
			if idle, ok := p.http1Conns.Load(c); ok {
				idle.(*atomic.Bool).Store(state == http.StateIdle)
			}
			if state == http.StateIdle && p.closesIdle.Load() {
				_ = c.Close()
			}
		}
	}
	p.http1.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counted.ServeHTTP(&lastWriter{w, &p.ending}, r)
	})
	// WriteTimeout limits only net/http's own answers, because the handler sets its own limit for
	// its answers. With HTTP/2, WriteTimeout would limit uploads.
	p.http1.WriteTimeout = web.DefaultStall
	p.http2.Protocols = new(http.Protocols)
	p.http2.Protocols.SetUnencryptedHTTP2(true) // the server sees no TLS, because the writebehind.Conn below it handles TLS
}

// connKey is the key under which a request's context contains the connection.
type connKey struct{}

// serve serves HTTP/1 and HTTP/2 until l is closed or fails.
func (p *port) serve(l *tcp.Listener) error {
	var second sync.WaitGroup
	defer second.Wait()
	if p.accept.TLS != nil {
		second.Go(func() { _ = p.serveHTTP2(l.Split()) })
	}
	return p.http1.Serve(l)
}

// serveHTTP2 serves TLS connections that have negotiated HTTP/2.
func (p *port) serveHTTP2(l net.Listener) error {
	return p.http2.Serve(writebehind.Listener(l, cmp.Or(p.stall, web.DefaultStall), headerTime))
}

// close aborts all requests, closes all connections, and waits for the requests to be logged.
func (p *port) close() {
	p.shutdown(http.ErrServerClosed)
	_ = p.http1.Close()
	_ = p.http2.Close()
	for late := time.Now().Add(endTime); p.active.Load() > 0 && time.Now().Before(late); {
		time.Sleep(pollEvery)
	}
}

const (
	pollEvery = 10 * time.Millisecond

	// endTime limits the wait for requests to be logged after their connections were closed.
	// Without a limit, a hanging store could block the wait.
	endTime = time.Second

	// goAwayEvery is the time between two GOAWAY announcements at the shutdown of HTTP/2. Several
	// are needed, because a connection that is just being set up misses the first one.
	goAwayEvery = time.Second

	// idleGrace is how long idle HTTP/1 connections are kept at shutdown, because a request may be
	// on its way on one of them. The answer to that request then closes the connection.
	idleGrace = time.Second
)

// drain waits until each connection has received the answers to its requests and is closed. If the
// context `patient` ends first, drain closes the remaining connections.
//
// Over HTTP/2, drain first gives connections time for a last request, and then calls Shutdown,
// which announces the end of each connection. So no request is lost.
//
// Over HTTP/1, Shutdown could drop a request that has just been read, and SetKeepAlivesEnabled
// could drop the first request of a connection whose header takes more than five seconds. So drain
// does not use them for HTTP/1. An HTTP/1 connection is closed with its next answer, after
// idleGrace if it is idle, or after headerTime if it never sends a request.
func (p *port) drain(patient context.Context, l *tcp.Listener) {
	defer p.close()
	var second sync.WaitGroup
	defer second.Wait()
	connected, drained := context.WithCancel(patient)
	defer drained()
	second.Go(func() {
		p.awaitRequests(connected)
		for connected.Err() == nil && !p.goAway(patient) {
		}
	})
	last := time.AfterFunc(cmp.Or(p.idleGrace, idleGrace), p.closeIdle)
	defer last.Stop()
	l.Drain(patient)
}

// closeIdle closes the HTTP/1 connections that wait for a request, and those that begin to wait
// later.
func (p *port) closeIdle() {
	p.closesIdle.Store(true)
	p.http1Conns.Range(func(c, idle any) bool {
		if idle.(*atomic.Bool).Load() {
			_ = c.(net.Conn).Close()
		}
		return true
	})
}

// awaitRequests gives each HTTP/2 connection time to send a request that is on its way: idleGrace
// from the start of the shutdown or from the start of the connection, whichever is later, because
// handshakes may still complete. A client reports an error if its connection is closed before its
// first request is answered.
func (p *port) awaitRequests(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, headerTime)
	defer cancel()
	last := cmp.Or(p.idleGrace, idleGrace)
	for began := time.Now(); ctx.Err() == nil; time.Sleep(pollEvery) {
		waits := time.Since(began) < last
		p.silent.Range(func(_, since any) bool {
			waits = waits || time.Since(since.(time.Time)) < last
			return !waits
		})
		if !waits {
			return
		}
	}
}

// goAway announces on all HTTP/2 connections that they will be closed, and waits up to goAwayEvery
// until they are. It reports whether all of them are closed.
func (p *port) goAway(patient context.Context) bool {
	ctx, cancel := context.WithTimeout(patient, goAwayEvery)
	defer cancel()
	return p.http2.Shutdown(ctx) == nil
}

// A lastWriter makes an answer close its connection once the server shuts down.
type lastWriter struct {
	http.ResponseWriter
	ending *atomic.Bool
}

// WriteHeader implements [http.ResponseWriter].
func (w *lastWriter) WriteHeader(code int) {
	if w.ending.Load() {
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(code)
}

// ReadFrom implements [io.ReaderFrom], so that the kernel can send files.
func (w *lastWriter) ReadFrom(r io.Reader) (int64, error) { return io.Copy(w.ResponseWriter, r) }

// Unwrap returns the writer below, for [http.ResponseController].
func (w *lastWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
