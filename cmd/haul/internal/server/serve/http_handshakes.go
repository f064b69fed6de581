package serve

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/haul-project/haul/tcp"
)

// Causes for which a connection may fail before its first request.
const (
	plainHTTP  = "HTTP without TLS"
	distrusted = "the client does not trust the certificate"
	tooSlow    = "it took too long"
	badTLS     = "TLS"
	tlsAhead   = "TLS without HTTPS"
)

// adviceOn says what the operator can do about a cause.
var adviceOn = map[string]string{
	noHeader: "the peer is in " + proxyFlag + ", and must begin with a PROXY header: enable that there (send-proxy in HAProxy, " +
		"proxy_protocol in nginx's stream), or take its network out of " + proxyFlag,
	badHeader: "only proxies may be in " + proxyFlag + "; check which header the peer sends",
	plainHTTP: "the URL must begin with https://; haul serve --http :80 also serves HTTP without TLS",
	distrusted: "the client needs the certificate that signed --cert (curl --cacert FILE, haul get --cacert FILE); " +
		"the certificate must contain the name in the URL, and the file of --cert all intermediate certificates",
	tlsAhead:    "the URL must begin with http://, or have the port of HTTPS (haul serve --https :443 --cert FILE)",
	headerAhead: "the peer sends a PROXY header, and is not in " + proxyFlag + ": add it if you trust this proxy; if it is there already, it sends two headers",
}

// badHandshake logs a connection that failed, and answers HTTP on a port for TLS.
func (p *httpPort) badHandshake(c *tcp.Conn, err error) {
	if p.failed.handshake(c, err) == plainHTTP {
		answerPlain(c)
	}
}

// causeOf returns why a handshake failed, and the level for the log: on the internet
// some fail at any time.
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
		return slog.LevelWarn, plainHTTP
	case isRecord && looksLikeProxy(record.RecordHeader):
		return slog.LevelWarn, headerAhead
	case isRemote && remote.Op == "remote error" && strings.Contains(remote.Err.Error(), "certificate"):
		return slog.LevelWarn, distrusted // an alert of RFC 8446 §6.2, which has no type of its own
	}
	return slog.LevelInfo, badTLS
}

// looksLikeHTTP reports whether the first bytes of a connection begin a request.
func looksLikeHTTP(head [5]byte) bool {
	switch string(head[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PRI *":
		return true
	}
	return false
}

// looksLikeTLS reports whether they begin a handshake of TLS (RFC 8446 §5.1).
func looksLikeTLS(head [5]byte) bool { return head[0] == 22 && head[1] == 3 }

// connPeer is the address of a peer for the log: see [peerText].
func connPeer(a net.Addr) string {
	if a.Network() == "unix" {
		return unixProxy
	}
	return a.String()
}

// sniff logs a connection that begins with TLS or a PROXY header instead of HTTP: net/http
// answers those with 400 and logs nothing.
func (p *httpPort) sniff(c *tcp.Conn, begin []byte) {
	var head [5]byte
	if copy(head[:], begin) < len(head) {
		return
	}
	switch {
	case looksLikeProxy(head):
		p.failed.add(slog.LevelWarn, headerAhead, c, errNotHTTP)
	case looksLikeTLS(head):
		p.failed.add(slog.LevelInfo, tlsAhead, c, errNotHTTP)
	}
}

var errNotHTTP = errors.New("the first bytes are not a request")

const (
	// plainTime is how long a client has to read the answer and to close. If more of its
	// request came after our close, the answer would be lost.
	plainTime = time.Second

	plainText = "Client sent an HTTP request to an HTTPS server.\n" // as net/http has it
)

var plainAnswer = fmt.Sprintf("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
	len(plainText), plainText)

// answerPlain answers that the port speaks TLS.
func answerPlain(c *tcp.Conn) {
	_ = c.SetDeadline(time.Now().Add(plainTime))
	if _, err := io.WriteString(c, plainAnswer); err != nil {
		return
	}
	if c.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, c, httpHeaderBytes)
	}
}
