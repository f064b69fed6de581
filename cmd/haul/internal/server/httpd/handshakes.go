package httpd

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/ports"
	"github.com/haul-project/haul/tcp"
)

// badHandshake logs a failed connection, and answers plain HTTP on a TLS port.
func (p *port) badHandshake(c *tcp.Conn, err error) {
	if p.failed.Handshake(c, err) == ports.PlainHTTP {
		answerPlain(c)
	}
}

// looksLikeTLS reports whether the first bytes are the beginning of a TLS handshake (RFC 8446
// §5.1).
func looksLikeTLS(head [5]byte) bool { return head[0] == 22 && head[1] == 3 }

// sniff logs a connection that begins with TLS or a PROXY header instead of HTTP. Without it there
// would be no log line, because net/http only answers 400.
func (p *port) sniff(c *tcp.Conn, begin []byte) {
	var head [5]byte
	if copy(head[:], begin) < len(head) {
		return
	}
	switch {
	case ports.LooksLikeProxy(head):
		p.failed.Add(slog.LevelWarn, ports.HeaderAhead, c, errNotHTTP)
	case looksLikeTLS(head):
		p.failed.Add(slog.LevelInfo, ports.TLSAhead, c, errNotHTTP)
	}
}

var errNotHTTP = errors.New("the first bytes are not a request")

const (
	// plainTime is how long a client has to read the answer and to close the connection. If the
	// server closed the connection at once, and more of the request arrived after that, the client
	// would lose the answer.
	plainTime = time.Second

	plainText = "Client sent an HTTP request to an HTTPS server.\n" // the same text that net/http sends
)

var plainAnswer = fmt.Sprintf("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
	len(plainText), plainText)

// answerPlain answers that the port expects TLS.
func answerPlain(c *tcp.Conn) {
	_ = c.SetDeadline(time.Now().Add(plainTime))
	if _, err := io.WriteString(c, plainAnswer); err != nil {
		return
	}
	if c.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, c, headerBytes)
	}
}
