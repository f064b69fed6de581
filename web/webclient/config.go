package webclient

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"time"
)

// DefaultAbsenceTimeout is the default of [Config.AbsenceTimeout].
const DefaultAbsenceTimeout = 20 * time.Second

// The defaults for other fields of a Config that are zero.
const (
	defaultConns = 8
	defaultParts = 8

	defaultConnectTimeout = 30 * time.Second
	defaultAnswerTimeout  = time.Minute
	defaultStallTimeout   = time.Minute
)

// A Config says how a [Client] reaches its server. The zero value is usable.
type Config struct {
	// User is the user for basic authentication (RFC 7617), with the password that Password
	// returns. If User is "" and the server requires a login, Password, if set, is called with an
	// empty user.
	User string

	// Password, if set, returns the user and the password for a server that requires them. host is
	// the server with its port. realm is the server's name for the protected area, shortened and
	// made safe to print on a terminal. Password is called at most once, whatever it returns.
	Password func(ctx context.Context, user, host, realm string) (string, string, error)

	// Eager sends User and the password with the first request instead of waiting for the server to
	// require them. It is for passwords that need not be typed: without Eager, the server first
	// refuses a request without the password, which costs a round trip.
	Eager bool

	TLS *tls.Config // nil means the defaults of crypto/tls

	// Query is the query in the URL of every request, such as the token of a signed URL.
	Query string

	// First is the name of the file that will be opened first, if known. Stat then begins to read
	// it, which saves a round trip.
	First string

	// Dial, if set, makes the connections instead of net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Redirect, if set, is called before a redirect to another server is followed. If it returns an
	// error, the redirect is not followed. It is not called for redirects from http to https on the
	// same host. If Redirect is set, the client also never goes from a server with a public address
	// to one with an internal address, such as 127.0.0.1 or 10.0.0.1, even if Redirect allows the
	// name. With a proxy, the proxy has to ensure this. By default, all redirects to other servers
	// are followed. No other server receives the login.
	Redirect func(to *url.URL) error

	// Conns is the largest number of connections at a time; 0 means 8. A file that is open for
	// reading holds one until all of it is read, and an upload holds one until it is committed;
	// other requests wait for a free one. Over HTTP/2 all requests share one connection, except
	// those for parts of large files.
	Conns int

	// Parts is how many parts of one file are requested at a time; 0 means 8. With a negative
	// number, no file is read in parallel.
	Parts int

	ConnectTimeout time.Duration // how long connecting may take, and then the TLS handshake; 0 means 30 s
	AnswerTimeout  time.Duration // how long the headers of an answer may take to arrive; 0 means a minute

	// StallTimeout is how long the body of a request or an answer may make no progress because of
	// the server; 0 means a minute.
	StallTimeout time.Duration

	// AbsenceTimeout is how long the client keeps trying to reach a server that has answered
	// before, if connections are lost or refused and nothing arrives. It gives up after that time
	// and at least five tries. Received data restarts the time. 0 means DefaultAbsenceTimeout. The
	// client does not wait for a server that it could never reach.
	AbsenceTimeout time.Duration

	UserAgent string // "" means "haul"

	// Waiting, if set, is called each time that the server is too busy for a request, as with 429
	// or 503, before the pause that precedes the next try. Several goroutines may call it at a
	// time, and they wait until it returns.
	Waiting func(status int, pause time.Duration)

	// Reconnecting, if set, is called each time that a connection was lost or could not be made,
	// with the reason and the pause before the next try. Several goroutines may call it at a time,
	// and they wait until it returns.
	Reconnecting func(err error, pause time.Duration)
}
