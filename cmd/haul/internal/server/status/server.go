package status

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/httpend"
)

// limits bounds the resources that a client can use.
type limits struct {
	header      time.Duration // from the beginning of a request until it is complete
	answer      time.Duration // from the complete request until the client has received the answer
	event       time.Duration // from the beginning of an event until the client has received the event
	idle        time.Duration // how long a connection may wait for the next request
	grace       time.Duration // how long answers under way may continue when the server shuts down
	profile     time.Duration // the maximum duration of a profile
	headerBytes int           // maximum length of a request's header, to which net/http adds 4096
	connections int           // maximum number of open connections: see count
	watchers    int           // maximum number of clients that receive events at the same time
}

// usual holds the limits outside of tests. They are enough for a few people with browsers, and some
// programs.
var usual = limits{
	header:      5 * time.Second,
	answer:      20 * time.Second,
	event:       5 * time.Second,
	idle:        30 * time.Second,
	grace:       time.Second,
	profile:     time.Minute,
	headerBytes: 8 << 10,
	connections: 64,
	watchers:    16,
}

// A Config says which clients may see a board, and which other pages the server has.
type Config struct {
	// Hosts lists the names by which browsers may reach a server without Login, besides localhost
	// and addresses. A request with another name comes from a page that tries to read the board
	// through the browser of somebody with access (DNS rebinding).
	Hosts []string

	// Login, if it is set, authenticates clients. It requires TLS.
	Login *Login
	TLS   *tls.Config // nil means no TLS

	Profiles bool // the server also serves profiles of the process (net/http/pprof)
	Log      *slog.Logger
}

// A Server serves a Board over HTTP.
type Server struct {
	http     http.Server
	socket   net.Listener
	log      *slog.Logger
	limits   limits
	watchers atomic.Int64
	end      context.CancelFunc // stops the sampling and the event streams to browsers
	over     <-chan struct{}    // closed once `end` has been called
	closing  atomic.Bool
	ended    chan struct{}

	mu   sync.Mutex
	open int        // number of open connections; guarded by mu
	idle []net.Conn // connections that wait for a request, the longest idle first; guarded by mu
}

// Addr returns the address of the socket.
func (s *Server) Addr() net.Addr { return s.socket.Addr() }

// Watchers returns how many clients currently receive events.
func (s *Server) Watchers() int64 { return s.watchers.Load() }

// run serves until Close. If the socket fails earlier, the page becomes unavailable, but the
// transfers continue.
func (s *Server) run(listen net.Listener) {
	defer close(s.ended)
	if err := s.http.Serve(listen); !s.closing.Load() {
		s.log.Error("status page ended", "address", s.Addr().String(), "error", err)
	}
}

// count makes room for a new connection if there are too many: it closes the connection that has
// been idle for the longest time. So clients that keep connections open do not lock others out. If
// no connection is idle, it closes the new one.
func (s *Server) count(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := slices.Index(s.idle, c); at >= 0 {
		s.idle = slices.Delete(s.idle, at, at+1)
	}
	switch state {
	case http.StateIdle:
		s.idle = append(s.idle, c)
	case http.StateClosed, http.StateHijacked:
		s.open--
	case http.StateNew:
		if s.open++; s.open <= s.limits.connections {
			return
		}
		if len(s.idle) > 0 {
			c = s.idle[0]
			s.idle = slices.Delete(s.idle, 0, 1)
		}
		if t, ok := c.(*tls.Conn); ok {
			c = t.NetConn() // close the TCP connection, because closing TLS in the regular way may take seconds
		}
		_ = c.Close()
	}
}

// Close shuts down the server. It stops the events, lets answers under way continue for the grace
// period, and closes all other connections. Close may be called again.
func (s *Server) Close() {
	s.closing.Store(true)
	s.end()
	httpend.Finish(&s.http, s.socket, s.ended, s.connections, s.limits.grace)
}

func (s *Server) connections() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.open)
}
