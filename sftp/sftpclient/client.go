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

// Upper bounds of fields of a [Config]. More has the same effect.
const (
	MaxRequests     = pipeline.MaxOutstanding
	MaxRequestBytes = wire.CommonData // what OpenSSH's server takes
)

// DefaultTimeout is what the zero Timeout of a [Config] means.
const DefaultTimeout = 30 * time.Second

// These are the defaults for other zero fields of a Config.
const (
	defaultConns    = 8
	defaultSessions = 8        // OpenSSH's MaxSessions is 10
	defaultMemory   = 64 << 20 // bytes
	defaultStall    = time.Minute
)

// A Config says what a [Client] may use. The zero value fits all but special
// cases.
type Config struct {
	// Conns is how many SSH connections there may be; 0 means 8.
	// Large files use more than one: four where the round trip is so long that
	// TCP's window limits one connection, and all of them from 50 ms on; one for
	// each 150 MB/s, up to four, where encryption by one core is the limit; and
	// more where the first connection has too few channels.
	Conns int

	// Sessions is how many SFTP channels a connection may have; 0 means 8. A server
	// that allows fewer gets fewer.
	Sessions int

	// Memory is how many bytes may be in flight, and how many more may be in
	// buffers of files: read ahead, or written and not yet sent. 0 means
	// 64 MiB. A file that is read or written has room for one request in
	// any case.
	Memory int

	// First names a file that will be read, if there is one. It is opened, and its
	// beginning read, along with the handshake, which saves two round trips. The
	// first Open of it within five seconds, and two Stats before that, get the
	// result.
	First string

	// Expect is how many bytes of one file are going to be moved, or FirstSize for the size of
	// First; 0 means that it is not known. If further connections help to move that much, they
	// begin at once, and not only when the file is read or written. RoundTrip has to be known
	// for that; [Dial] measures it.
	Expect int64

	// RoundTrip is how long a round trip to the server takes, if that is known before the first
	// answer; 0 means that it is not. The real one may be longer, as behind a forwarder.
	RoundTrip time.Duration

	// Connect makes a further connection. [Dial] needs none; a client of
	// [New] without it stays with the connection it has. The Client
	// closes what Connect makes.
	Connect func(ctx context.Context) (*ssh.Client, error)

	// ConnectStream makes a further session of a client of [NewStream], on a stream that the
	// Client closes. It counts as a connection, as most streams need a login of their own. If
	// it fails, the Client continues with the sessions that it has.
	ConnectStream func(ctx context.Context) (io.ReadWriteCloser, error)

	// Timeout is how long it may take to make a connection, handshake and
	// log-in included, and how long to open a channel; 0 means DefaultTimeout.
	Timeout time.Duration

	// Stall is how long a server may leave requests unanswered without sending or accepting a
	// single byte. After that the session is closed. 0 means
	// one minute, and less than 0 no limit.
	Stall time.Duration

	// NoReadAhead makes File.Read ask for no more than it was asked for, and
	// NoWriteBehind makes File.Write wait until the server has the bytes.
	NoReadAhead, NoWriteBehind bool

	// Runs, if set, puts the ID of this run into the names of temporary files. Uploads then
	// remove at once what a run has left that was killed or lost its connection. Without it
	// they remove such files when they are old.
	Runs Runs

	// Requests, if above zero, is the most requests to read or write data that
	// may be outstanding, at most MaxRequests; with 1 nothing overlaps, unless
	// FillFrom or FetchTo copy a file to another of the same client. The client
	// then uses one channel. RequestBytes, if above zero, is the most
	// bytes of each, at most MaxRequestBytes. With either, First has no effect.
	Requests     int
	RequestBytes int

	// Delay leaves Nagle's algorithm on (no TCP_NODELAY) in connections that
	// Dial makes.
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
	c.Sessions = min(c.Sessions, pipeline.MaxLanes)
	c.Conns = min(c.Conns, pipeline.MaxLanes/c.Sessions)
}

// FirstSize as Expect of a [Config] stands for the size of the file First.
const FirstSize = mux.ExpectFirst

// set replaces a value that is not above zero.
func set[T int | time.Duration](v *T, to T) {
	if *v <= 0 {
		*v = to
	}
}

// Errors of a connection.
var (
	// ErrConnectionLost means that the connection is gone and there is no other. The server
	// may have carried out the requests under way, or not.
	ErrConnectionLost = mux.ErrConnectionLost

	// ErrStalled means that the server was silent for too long: see [Config].
	ErrStalled = mux.ErrStalled

	// ErrProtocol means that the server violates the protocol.
	ErrProtocol = mux.ErrProtocol

	// ErrClosed means that the Client was closed.
	ErrClosed = mux.ErrClosed
)

// A Client is one user's access to the files of one server. Any goroutine may
// call its methods.
//
// Names are the server's: slash-separated, and relative to the directory where
// the user begins unless they begin with a slash. A symbolic link is followed
// unless a method says otherwise. Contexts end the wait for an answer; the
// request itself may have been carried out.
type Client struct {
	config Config
	server *mux.Server
	mux    *mux.Mux
	run    run
	disk   disk

	recordEvery int64 // see recordEvery; less in tests
}

// Close ends all sessions, and closes the connections that the Client made. Calls under way
// fail with [ErrClosed]. Close waits for the server only as [Client.Drain] does.
func (c *Client) Close() error { return c.mux.Close() }

// A Path describes the path to the server, as far as the Client has measured it.
type Path struct {
	Conns, Sessions int           // how many are open
	Window          int           // bytes that may be in flight
	InFlight        int           // bytes that are
	RoundTrip       time.Duration // the least of late; 0 if not known yet
	Rate            int64         // the best of late, bytes a second
	ReadBytes       int           // most bytes a request to read
	WriteBytes      int           // most bytes a request to write
}

// Path returns what is known of the path to the server now.
func (c *Client) Path() Path {
	s := c.mux.State()
	return Path{
		Conns: s.Conns, Sessions: s.Sessions, Window: s.Window, InFlight: s.InFlight,
		RoundTrip: s.RoundTrip, Rate: s.Rate, ReadBytes: c.server.ReadChunk, WriteBytes: c.server.WriteChunk,
	}
}

// Drain waits until the server has closed the files for which [File.Close] does not
// wait: those that were only read. If the connection ends before, the server logs them
// as left open.
//
// If there is one such file, open in one session, it is enough that the request was
// sent: the server reads what came before the connection ended. Of several requests,
// the later ones are lost if the server fails to send the answer to the first,
// because the connection has ended.
//
// It takes no longer than a second, whatever the server does. [Client.Close] does
// it too; programs that end the connection before the Client call it themselves.
func (c *Client) Drain() { c.mux.Drain() }
