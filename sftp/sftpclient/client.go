package sftpclient

import (
	"context"
	"io"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/sftp/internal/mux"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// Upper bounds of fields of a [Config]. A larger value has the same effect as the bound.
const (
	MaxRequests     = pipeline.MaxOutstanding
	MaxRequestBytes = wire.CommonData // the limit of OpenSSH's server
)

// DefaultTimeout is used if the Timeout of a [Config] is zero.
const DefaultTimeout = 30 * time.Second

// These are the defaults for fields of a Config that are zero.
const (
	defaultConns    = 8
	defaultSessions = 8        // OpenSSH's MaxSessions is 10
	defaultMemory   = 64 << 20 // bytes
	defaultStall    = time.Minute
)

// A Config holds the settings of a [Client]. The zero value fits all but special cases.
type Config struct {
	// Conns is the largest number of SSH connections; 0 means 8. The Client uses several
	// connections for large files. If the round trip is so long that TCP's window limits one
	// connection, it uses four, or all of them if the round trip is 50 ms or more. If one core
	// limits the encryption, it uses one connection for each 150 MB/s, up to four. It also uses
	// more connections if the first one has too few channels.
	Conns int

	// Sessions is the largest number of SFTP channels per connection; 0 means 8. If the server
	// allows fewer, the Client uses fewer.
	Sessions int

	// Memory is the largest number of bytes in flight, and also the largest number of bytes in
	// buffers of files: read ahead, or written and not yet sent. 0 means 64 MiB. An open file
	// always has room for one request.
	Memory int

	// First names a file that will be read soon; "" for none. The handshake opens it and reads its
	// beginning, which saves two round trips. The first Open of that file within five seconds gets
	// the result, and so do two Stats before that Open.
	First string

	// Expect is how many bytes of one file are going to be moved, or FirstSize for the size of
	// First; 0 means that this is unknown. If further connections help to move that many bytes, the
	// Client opens them at once, instead of when the file is read or written. This requires
	// RoundTrip, which [Dial] measures.
	Expect int64

	// RoundTrip is the duration of a round trip to the server, if it is known before the first
	// answer; otherwise 0. The real round trip may be longer, for example if the connection leads
	// through a forwarder.
	RoundTrip time.Duration

	// Connect opens a further connection. [Dial] does not need it. If Connect is nil, a client of
	// [New] uses only its first connection. The Client closes the connections that Connect opens.
	Connect func(ctx context.Context) (*ssh.Client, error)

	// ConnectStream opens a stream for a further session of a client of [NewStream]. The Client
	// closes the stream. Each stream counts as a connection, because most streams need a login of
	// their own. If ConnectStream fails, the Client continues with the sessions it has.
	ConnectStream func(ctx context.Context) (io.ReadWriteCloser, error)

	// Timeout is the time limit for opening a connection, including handshake and login, and for
	// opening a channel; 0 means DefaultTimeout.
	Timeout time.Duration

	// Stall is how long a server may leave requests unanswered without sending or accepting a
	// single byte. After that the session is closed. 0 means one minute, and a negative value means
	// no limit.
	Stall time.Duration

	// NoReadAhead makes File.Read request only the bytes that it returns. NoWriteBehind makes
	// File.Write wait until the server has confirmed the bytes.
	NoReadAhead, NoWriteBehind bool

	// Runs, if set, puts the ID of this run into the names of temporary files. Later uploads then
	// immediately remove the files of a run that was killed or lost its connection. Without Runs,
	// they remove such files only when the files are old.
	Runs Runs

	// Requests, if above zero, is how many requests to read or write data may be outstanding, at
	// most MaxRequests. The client then uses one channel. With 1 no requests overlap, except when
	// FillFrom or FetchTo copies a file to another file of the same client. RequestBytes, if above
	// zero, is the largest number of bytes per request, at most MaxRequestBytes. If either is set,
	// First has no effect.
	Requests     int
	RequestBytes int

	// Delay keeps Nagle's algorithm enabled (no TCP_NODELAY) for the connections that Dial opens.
	Delay bool
}

func (c *Config) setDefaults() {
	set(&c.Conns, defaultConns)
	set(&c.Sessions, defaultSessions)
	set(&c.Memory, defaultMemory)
	set(&c.Timeout, DefaultTimeout)
	if c.Stall == 0 {
		c.Stall = defaultStall
	}
	if c.Requests > 0 {
		c.Conns, c.Sessions = 1, 1
	}
	if c.Requests > 0 || c.RequestBytes > 0 {
		c.First, c.Expect = "", 0
	}
	c.Sessions = min(c.Sessions, pipeline.MaxSessions)
	c.Conns = min(c.Conns, pipeline.MaxSessions/c.Sessions)
}

// FirstSize, as the Expect of a [Config], stands for the size of the file First.
const FirstSize = mux.ExpectFirst

// set sets *v to the default value `to` if *v is zero or negative.
func set[T int | time.Duration](v *T, to T) {
	if *v <= 0 {
		*v = to
	}
}

// Errors of a connection.
var (
	// ErrConnectionLost means that the connection has ended and the Client has no other. The server
	// may have executed the requests in flight, or not.
	ErrConnectionLost = mux.ErrConnectionLost

	// ErrStalled means that the server was silent for too long: see [Config].
	ErrStalled = mux.ErrStalled

	// ErrProtocol means that the server violates the protocol.
	ErrProtocol = mux.ErrProtocol

	// ErrClosed means that the Client was closed.
	ErrClosed = mux.ErrClosed
)

// A Client accesses the files of one server as one user. Any goroutine may call its methods.
//
// File names are the server's: slash-separated, and relative to the directory where the user starts
// unless they begin with a slash. Symbolic links are followed unless a method says otherwise. A
// call returns when its context ends; the server may still execute the request.
type Client struct {
	config Config
	server *mux.Server
	mux    *mux.Mux
	run    run
	disk   disk

	recordEvery int64 // value of the constant recordEvery, or a smaller one in tests
}

// Close ends all sessions, and closes the connections that the Client made. Calls under way
// fail with [ErrClosed]. Close waits for the server only as [Client.Drain] does.
func (c *Client) Close() error { return c.mux.Close() }

// Drain waits until the server has closed the files that were only read: [File.Close] does not wait
// for that. If the connection ends earlier, the server logs that these files were left open.
//
// If there is only one such file, open in one session, Drain waits only until the request is sent:
// the server still reads that request after the connection has ended. If there are several
// requests, the server may fail to send the answer to the first, because the connection has ended.
// It then does not read the later requests.
//
// Drain takes at most a second, whatever the server does. [Client.Close] calls it; programs that
// end the connection before they close the Client call it themselves.
func (c *Client) Drain() { c.mux.Drain() }
