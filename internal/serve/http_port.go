package serve

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/tcp"
	"github.com/haul-project/haul/web"
)

// An httpPort is where one of the two is served.
type httpPort struct {
	scheme  string
	asked   []string
	accept  tcp.Server
	failed  tally // handshakes
	sockets []*tcp.Socket

	// Connections of HTTP/1 have another end than those of HTTP/2, so each has a
	// server: see finish.
	first, second http.Server

	// shutdown ends all requests, with a cause for their contexts. active is how
	// many there are.
	shutdown context.CancelCauseFunc
	active   atomic.Int64

	ending   atomic.Bool   // answers of HTTP/1 are the last on their connections
	lastCall time.Duration // 0 means httpLastCall
}

// open makes the servers ready.
func (p *httpPort) open(handler http.Handler, log *slog.Logger) {
	requests, shutdown := context.WithCancelCause(context.Background())
	p.shutdown = shutdown
	for _, s := range []*http.Server{&p.first, &p.second} {
		s.BaseContext = func(net.Listener) context.Context { return requests }
		s.ReadHeaderTimeout, s.IdleTimeout, s.MaxHeaderBytes = httpHeaderTime, httpIdleTime, httpHeaderBytes
		s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: httpStreams, WriteByteTimeout: web.DefaultStall}
		s.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelWarn)
		s.DisableGeneralOptionsHandler = true
	}
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.active.Add(1)
		defer p.active.Add(-1)
		handler.ServeHTTP(w, r)
	})
	p.second.Handler = counted
	p.first.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counted.ServeHTTP(&lastWriter{w, &p.ending}, r)
	})
	// For net/http's own answers: the handler's move it. Of HTTP/2 it would bound uploads.
	p.first.WriteTimeout = web.DefaultStall
}

// servePort serves one port. When ctx ends, requests that are under way have the
// grace to come to their end; or the limit, if there is a successor, unless the
// server ends in the meantime.
func (s *httpService) servePort(server, ctx context.Context, p *httpPort) error {
	l, err := p.accept.Listener(p.sockets...)
	if err != nil {
		return err
	}
	// Closed first, it still gives out those that were accepted.
	stop := context.AfterFunc(ctx, func() {
		p.ending.Store(true)
		_ = l.Close()
	})
	err = p.serve(l)
	if stop() {
		p.close()
		return fmt.Errorf("%s: %w", p.scheme, err)
	}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(s.cfg.Grace, s.limit))
	defer cancel()
	defer context.AfterFunc(server, func() { time.AfterFunc(s.cfg.Grace, cancel) })()
	p.finish(patient)
	return nil
}

// serve serves until l fails, which closing it has it do.
func (p *httpPort) serve(l net.Listener) error {
	if p.accept.TLS == nil {
		return p.first.Serve(&overhearer{l, p})
	}
	f := &fork{Listener: l, second: make(chan net.Conn)}
	var second sync.WaitGroup
	second.Go(func() { _ = p.second.Serve((*secondary)(f)) })
	err := p.first.Serve(f)
	close(f.second)
	second.Wait()
	return err
}

// close ends all requests and connections, and gives what is under way the time to
// be logged.
func (p *httpPort) close() {
	p.shutdown(http.ErrServerClosed)
	_ = p.first.Close()
	_ = p.second.Close()
	for late := time.Now().Add(endTime); p.active.Load() > 0 && time.Now().Before(late); {
		time.Sleep(settleEvery)
	}
}

const (
	settleEvery = 10 * time.Millisecond

	// endTime is how long requests are waited for whose connections are closed: a
	// store may hang.
	endTime = time.Second

	// goAwayEvery is how soon clients of HTTP/2 are told again that this is the
	// end: one whose connection was just about to begin would not have heard.
	goAwayEvery = time.Second

	// httpLastCall is for how long an idle connection of HTTP/1 is kept at the end:
	// whoever asks again and again by it has asked by then, and was told to go with
	// the answer. One that is closed before that may have a request on its way.
	httpLastCall = time.Second
)

// finish waits until each connection has had the answer to what it has asked for, and
// was closed behind it. When patient ends first, those that are left are cut.
//
// Clients of HTTP/2 learn of the end by Shutdown, and lose nothing by it. Of
// HTTP/1 it would drop a request that has just been read; such a connection ends
// with its next answer, or as it is if it is idle for the time of the last call.
func (p *httpPort) finish(patient context.Context) {
	defer p.close()
	var second sync.WaitGroup
	defer second.Wait()
	second.Go(func() {
		for patient.Err() == nil && !p.goAway(patient) {
		}
	})
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	last := time.NewTimer(cmp.Or(p.lastCall, httpLastCall))
	defer last.Stop()
	for p.accept.Counters().Conns > 0 {
		select {
		case <-last.C:
			p.first.SetKeepAlivesEnabled(false) // which closes those that are idle
		case <-tick.C:
		case <-patient.Done():
			return
		}
	}
}

// goAway tells clients of HTTP/2 to go, and reports whether they have gone.
func (p *httpPort) goAway(patient context.Context) bool {
	ctx, cancel := context.WithTimeout(patient, goAwayEvery)
	defer cancel()
	return p.second.Shutdown(ctx) == nil
}

// A fork is a listener for TLS that gives out connections of HTTP/1, and sends those
// of HTTP/2 into a channel.
type fork struct {
	net.Listener
	second chan net.Conn // closed when Accept has failed for good
}

// Accept implements [net.Listener]. Handshakes have been made by package tcp.
func (f *fork) Accept() (net.Conn, error) {
	for {
		c, err := f.Listener.Accept()
		if t, ok := c.(*tls.Conn); !ok || t.ConnectionState().NegotiatedProtocol != "h2" {
			return c, err
		}
		f.second <- c
	}
}

// A secondary is the side of a fork where connections of HTTP/2 come out.
type secondary fork

// Accept implements [net.Listener].
func (s *secondary) Accept() (net.Conn, error) {
	if c, ok := <-s.second; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// Close implements [net.Listener]. It ends with the other side.
func (s *secondary) Close() error { return nil }

// A lastWriter says with an answer that it is the last of its connection, if the server
// ends by then.
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

// ReadFrom implements [io.ReaderFrom]: what the kernel can send must get there.
func (w *lastWriter) ReadFrom(r io.Reader) (int64, error) { return io.Copy(w.ResponseWriter, r) }

// Unwrap is for [http.ResponseController].
func (w *lastWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func closeAll[C io.Closer](conns []C) {
	for _, c := range conns {
		_ = c.Close()
	}
}
