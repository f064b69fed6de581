package serve

import (
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/internal/linequeue"
	"github.com/haul-project/haul/tcp"
)

// failedConns logs connections that fail before their first request.
type failedConns struct {
	linequeue.RateLimited
	proxies string // the flag that names the proxies, such as "--http-proxy"
}

// Causes that have to do with PROXY headers.
const (
	noHeader    = "no PROXY header"
	badHeader   = "the PROXY header is not right"
	headerAhead = "a PROXY header"
)

// proxyFlag stands in adviceOn for the flag that names the proxies.
const proxyFlag = "--PROXIES"

// maxHandshakeError bounds how much of an error is logged, in bytes: strangers can
// choose parts of it.
const maxHandshakeError = 200

// add logs a connection that failed for a cause.
func (f *failedConns) add(level slog.Level, cause string, c *tcp.Conn, err error) {
	text := err.Error()
	more := []slog.Attr{slog.String("error", text[:min(len(text), maxHandshakeError)])}
	if advice := adviceOn[cause]; advice != "" {
		more = append(more, slog.String("advice", strings.ReplaceAll(advice, proxyFlag, f.proxies)))
	}
	f.RateLimited.Count(level, cause, connPeer(c.RemoteAddr()), more...)
}

// handshake logs a connection whose PROXY header or TLS handshake failed, and returns the
// cause. Port scans are not logged, and have none.
func (f *failedConns) handshake(c *tcp.Conn, err error) (cause string) {
	if errors.Is(err, io.EOF) {
		return ""
	}
	level, cause := causeOf(err)
	f.add(level, cause, c, err)
	return cause
}

// looksLikeProxy reports whether the first bytes begin a PROXY header, of either version.
func looksLikeProxy(head [5]byte) bool {
	return string(head[:]) == "PROXY" || string(head[:]) == "\r\n\r\n\x00"
}

// needUnixSocket reports a lack of a unix socket for proxies. The name is that of the
// service.
func (f *failedConns) needUnixSocket(name string, sockets []*tcp.Socket) error {
	if slices.ContainsFunc(sockets, isUnixSocket) {
		return nil
	}
	return failure.Listen.Errorf("%s unix: there is no unix socket, and haul opens none itself; have systemd pass one: in a socket unit, "+
		"ListenStream=/run/haul-%s.sock, with SocketMode=0660 and the proxy's SocketGroup=, since a process that may connect can claim any address", f.proxies, name)
}

func isUnixSocket(s *tcp.Socket) bool { return s.Addr().Network() == "unix" }
