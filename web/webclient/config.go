package webclient

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// The defaults of the fields of [Config] that are zero.
const (
	DefaultConns = 8
	DefaultLanes = 8

	DefaultConnectTimeout = 30 * time.Second
	DefaultAnswerTimeout  = time.Minute
	DefaultStallTimeout   = time.Minute
	DefaultAbsenceTimeout = 20 * time.Second
)

// A Config says how a [Client] reaches its server. The zero value is good.
type Config struct {
	// User logs in by basic authentication (RFC 7617), with what Password
	// returns. If it is "" and the server wants a login, Password is called with an
	// empty user, if it is set.
	User string

	// Password, if set, returns the user and the password for a server that asks
	// for them. host is the server, with its port, and realm what it calls what
	// it protects: words of the server's, cut and without what could hurt a
	// terminal. It is called once at most, whatever it returns.
	Password func(ctx context.Context, user, host, realm string) (string, string, error)

	// Eager sends User, and what Password returns, with the first request and
	// does not wait to be asked. It is for passwords that need not be typed: a
	// request that a server refuses for want of one takes a round trip.
	Eager bool

	TLS *tls.Config // nil means that of crypto/tls

	// Query is added to every request, as the token of a URL that was signed.
	Query string

	// First is the name of the file that will be opened first, if that is known.
	// To Stat it is to begin to read it, which saves a round trip.
	First string

	// Dial, if set, makes the connections, in place of net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Conns is how many connections there are at most at a time; 0 means
	// DefaultConns. A file that is open for reading holds one until all of it
	// is read, and an upload until it is committed; other requests wait for theirs.
	// Over HTTP/2 all but the parts of large files share one.
	Conns int

	// Lanes is how many parts of one file are asked for at a time; 0 means
	// DefaultLanes, and a negative number none, so that nothing is read in
	// parallel.
	Lanes int

	ConnectTimeout time.Duration // 0 means DefaultConnectTimeout
	AnswerTimeout  time.Duration // until the headers of an answer have come; 0 means DefaultAnswerTimeout

	// StallTimeout is how long the body of a request or an answer may make no
	// progress for want of the server; 0 means DefaultStallTimeout.
	StallTimeout time.Duration

	// AbsenceTimeout is how long a server that has answered before is tried again
	// if connections to it are lost, or refused, and nothing is received any more.
	// Then the client gives up, but not before some tries. Anything received
	// restarts it. 0 means DefaultAbsenceTimeout. A server that cannot be reached
	// from the first is not waited for.
	AbsenceTimeout time.Duration

	UserAgent string // "" means "haul"

	// Waiting, if set, is called each time that the server has no time for a
	// request, such as by 429 or 503, and is going to be asked again after a
	// pause. Several goroutines may call it at a time, and it holds them up.
	Waiting func(status int, pause time.Duration)

	// Reconnecting, if set, is called each time that a connection was lost, or not
	// made, with the reason and the pause before the next try. Like Waiting, it may
	// be called by several goroutines, and holds them up.
	Reconnecting func(err error, pause time.Duration)
}
