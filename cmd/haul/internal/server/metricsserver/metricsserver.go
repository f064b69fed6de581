// Package metricsserver serves metrics and the health of a server over HTTP, with bounds on the
// resources of clients.
package metricsserver

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/httpend"
)

// metricsLimits bounds the resources that a client of the metrics can use. Each connection serves
// one request, so it lasts at most header + answer.
type metricsLimits struct {
	header      time.Duration // from the beginning of the connection until the request is complete
	answer      time.Duration // from the complete request until the client has received the answer
	grace       time.Duration // how long answers under way may continue when the server shuts down
	headerBytes int           // maximum length of a request's header, to which net/http adds 4096
	connections int           // maximum number of open connections; further connections are closed at once
}

// metricsDefaults holds limits that are enough for one or two scrapers on a working network, at
// intervals of seconds.
var metricsDefaults = metricsLimits{
	header:      5 * time.Second,
	answer:      10 * time.Second,
	grace:       time.Second,
	headerBytes: 4 << 10,
	connections: 64,
}

// A Server serves metrics and health.
type Server struct {
	http   http.Server
	socket net.Listener
	log    *slog.Logger
	limits metricsLimits
	open   atomic.Int64 // number of open connections

	closing atomic.Bool
	ended   chan struct{}
}

// New serves three paths on a socket until Close: /metrics with the handler, /healthz, and / with a
// line about the other two. When ctx ends, the status of /healthz changes from 200 to 503. The
// other paths continue to work, so that the last transfers can be observed.
//
// There is no encryption and no password, so only clients that may see the numbers should be able
// to reach the socket.
func New(ctx context.Context, socket net.Listener, metrics http.Handler, log *slog.Logger) *Server {
	return metricsDefaults.serveOn(ctx, socket, metrics, log)
}

func (limits metricsLimits) serveOn(ctx context.Context, socket net.Listener, metrics http.Handler, log *slog.Logger) *Server {
	s := &Server{socket: socket, log: log, limits: limits, ended: make(chan struct{})}
	s.http = http.Server{
		Handler:                      checkHosts(httpend.Loopback(socket.Addr()), metricsRoutes(ctx, metrics)),
		ReadHeaderTimeout:            limits.header,
		ReadTimeout:                  limits.header,
		WriteTimeout:                 limits.answer,
		IdleTimeout:                  limits.header, // unused: connections are not kept
		MaxHeaderBytes:               limits.headerBytes,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ConnState:                    s.count,
	}
	// A scrape arrives only every few seconds, so a new connection for each is cheap. If
	// connections were kept, a stranger could hold them open.
	s.http.SetKeepAlivesEnabled(false)
	go s.run()
	return s
}

// checkHosts refuses requests that may come from a stranger's page.
func checkHosts(loopback bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !httpend.Admits(r, loopback, httpend.Known(nil)) {
			http.Error(w, "This server answers to localhost and IP addresses only; use one of these in the URL.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// metricsRoutes answers requests. Methods other than GET and HEAD get 405, other paths
// 404.
func metricsRoutes(ctx context.Context, metrics http.Handler) http.Handler {
	text := func(w http.ResponseWriter, status int, line string) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, line+"\n") // an error would mean that the client has left
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if ctx.Err() != nil {
			text(w, http.StatusServiceUnavailable, "draining")
			return
		}
		text(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		text(w, http.StatusOK, "haul: metrics are at /metrics, health is at /healthz")
	})
	return mux
}

// Addr returns the address of the socket.
func (s *Server) Addr() net.Addr { return s.socket.Addr() }

// run serves until Close. If the socket fails earlier, the metrics become unavailable, but the
// transfers continue.
func (s *Server) run() {
	defer close(s.ended)
	if err := s.http.Serve(s.socket); !s.closing.Load() {
		s.log.Error("metrics ended", "address", s.Addr().String(), "error", err)
	}
}

// count counts the open connections, and closes a new connection if too many are open.
func (s *Server) count(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		if s.open.Add(1) > int64(s.limits.connections) {
			_ = c.Close() // no request is lost: the connection has not sent one yet
		}
	case http.StateClosed, http.StateHijacked:
		s.open.Add(-1)
	}
}

// Close shuts down the server. Answers under way may continue for the grace period; other
// connections are closed. Close may be called again.
func (s *Server) Close() {
	s.closing.Store(true)
	httpend.Finish(&s.http, s.socket, s.ended, s.open.Load, s.limits.grace)
}
