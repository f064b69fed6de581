package ports

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/internal/linequeue"
	"github.com/haul-project/haul/tcp"
)

// FailedConns logs connections that fail before their first request.
type FailedConns struct {
	linequeue.RateLimited
	Proxies failure.Flag // the setting that lists the proxies; the advice in the log names it
}

// These are the causes of failures that concern PROXY headers.
const (
	noHeader    = "no PROXY header"
	badHeader   = "the PROXY header is not right"
	HeaderAhead = "a PROXY header"
)

// proxyFlag is a placeholder in adviceOn for the flag that lists the proxies.
const proxyFlag = "--PROXIES"

// maxHandshakeError is how many bytes of an error are logged. It is bounded because strangers can
// influence the text.
const maxHandshakeError = 200

// Add logs a connection that failed, with the cause.
func (f *FailedConns) Add(level slog.Level, cause string, c *tcp.Conn, err error) {
	text := err.Error()
	more := []slog.Attr{slog.String("error", text[:min(len(text), maxHandshakeError)])}
	if advice := adviceOn[cause]; advice != "" {
		more = append(more, slog.String("advice", strings.ReplaceAll(advice, proxyFlag, f.Proxies.String())))
	}
	f.RateLimited.Count(level, cause, Peer(c.RemoteAddr()), more...)
}

// Handshake logs a connection whose PROXY header or TLS handshake failed, and returns the cause.
// For a connection that was closed without sending data, such as a port scan, it logs nothing and
// returns "".
func (f *FailedConns) Handshake(c *tcp.Conn, err error) (cause string) {
	if errors.Is(err, io.EOF) {
		return ""
	}
	level, cause := causeOf(err)
	f.Add(level, cause, c, err)
	return cause
}

// LooksLikeProxy reports whether the first bytes are the beginning of a PROXY header, of either
// version.
func LooksLikeProxy(head [5]byte) bool {
	return string(head[:]) == "PROXY" || string(head[:]) == "\r\n\r\n\x00"
}

// These are the other causes for which a connection may fail before its first request.
const (
	PlainHTTP  = "HTTP without TLS"
	distrusted = "the client does not trust the certificate"
	tooSlow    = "it took too long"
	badTLS     = "TLS"
	TLSAhead   = "TLS without HTTPS"
)

// adviceOn maps a cause to the action that the administrator can take.
var adviceOn = map[string]string{
	noHeader: "the peer is in " + proxyFlag + ", and must begin with a PROXY header: enable that there (send-proxy in HAProxy, " +
		"proxy_protocol in nginx's stream), or take its network out of " + proxyFlag,
	badHeader: "only proxies may be in " + proxyFlag + "; check which header the peer sends",
	PlainHTTP: "the URL must begin with https://; haul serve --http :80 also serves HTTP without TLS",
	distrusted: "the client needs the certificate that signed --cert (curl --cacert FILE, haul get --cacert FILE); " +
		"the certificate must contain the name in the URL, and the file of --cert all intermediate certificates",
	TLSAhead:    "the URL must begin with http://, or have the port of HTTPS (haul serve --https :443 --cert FILE)",
	HeaderAhead: "the peer sends a PROXY header, and is not in " + proxyFlag + ": add it if you trust this proxy; if it is there already, it sends two headers",
}

// causeOf returns the reason why a handshake failed, and the level for the log. Some failures are
// not logged as warnings, because on the internet they happen all the time.
func causeOf(err error) (slog.Level, string) {
	record, isRecord := errors.AsType[tls.RecordHeaderError](err)
	remote, isRemote := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, tcp.ErrNoProxyHeader):
		return slog.LevelWarn, noHeader
	case errors.Is(err, os.ErrDeadlineExceeded):
		return slog.LevelInfo, tooSlow
	case errors.Is(err, tcp.ErrProxyHeader):
		return slog.LevelWarn, badHeader
	case isRecord && looksLikeHTTP(record.RecordHeader):
		return slog.LevelWarn, PlainHTTP
	case isRecord && LooksLikeProxy(record.RecordHeader):
		return slog.LevelWarn, HeaderAhead
	case isRemote && remote.Op == "remote error" && strings.Contains(remote.Err.Error(), "certificate"):
		return slog.LevelWarn, distrusted // an alert of RFC 8446 §6.2, for which package tls has no type
	}
	return slog.LevelInfo, badTLS
}

// looksLikeHTTP reports whether the first bytes of a connection are the beginning of an HTTP
// request.
func looksLikeHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PRI *":
		return true
	}
	return false
}

// NeedUnixSocket returns an error if a unix socket for proxies is missing. name is the name of
// the service.
func (f *FailedConns) NeedUnixSocket(name string, sockets []*tcp.Socket) error {
	if slices.ContainsFunc(sockets, isUnixSocket) {
		return nil
	}
	return failure.Listen.Errorf("%s unix: there is no unix socket, and haul opens none itself; have systemd pass one: in a socket unit, "+
		"ListenStream=/run/haul-%s.sock, with SocketMode=0660 and the proxy's SocketGroup=, since a process that may connect can claim any address", f.Proxies, name)
}

func isUnixSocket(s *tcp.Socket) bool { return s.Addr().Network() == "unix" }
