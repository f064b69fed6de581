package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// minCalls is how many requests that carry no data may be on their way before it
// is known how many make sense.
const minCalls = 128

// Upper bounds of fields of a [Config]. More has the same effect.
const (
	MaxRequests     = pipeline.MaxOutstanding
	MaxRequestBytes = wire.CommonData // what OpenSSH's server takes
)

// What zero stands for in a [Config].
const (
	DefaultConns   = 8
	DefaultLanes   = 8        // OpenSSH's MaxSessions is 10
	DefaultMemory  = 64 << 20 // bytes
	DefaultTimeout = 30 * time.Second
	DefaultStall   = time.Minute
)

// A Config says what a [Client] may use. The zero value is for all cases
// but special ones.
type Config struct {
	// Conns is how many SSH connections there may be; 0 means DefaultConns.
	// Further ones are made for large files: on long ways, where TCP lets one
	// carry no more than it does, four, and from 50 ms on all of them; where
	// one core of cipher is the bound, one for each 150 MB/s, up to four; and
	// where the channels of the first are not enough.
	Conns int

	// Lanes is how many SFTP channels a connection may have; 0 means
	// DefaultLanes. A server that allows fewer gets fewer.
	Lanes int

	// Memory is how many bytes may be on their way, and how many may be held
	// in buffers of files besides: read ahead, or written and not yet sent.
	// 0 means DefaultMemory. A file that is read or written has room for one
	// request in any case.
	Memory int

	// First names a file that is about to be read, if there is one: it is
	// opened, and its beginning asked for, along with the greeting, which
	// spares two round trips. The first Open of it within seconds, and two
	// Stats before that, are answered by what is known then.
	First string

	// Connect makes a further connection. [Dial] needs none; a client of
	// [New] without it stays with the connection it has. The Client
	// closes what Connect makes.
	Connect func(ctx context.Context) (*ssh.Client, error)

	// Timeout is how long it may take to make a connection, handshake and
	// log-in included, and how long to open a channel; 0 means DefaultTimeout.
	Timeout time.Duration

	// Stall is how long a server may leave requests unanswered without
	// sending, or taking, a single byte: then the channel is given up. 0 means
	// DefaultStall, and less that it may take for ever.
	Stall time.Duration

	// NoReadAhead makes File.Read ask for no more than it was asked for, and
	// NoWriteBehind makes File.Write wait until the server has the bytes.
	NoReadAhead, NoWriteBehind bool

	// Requests, if above zero, is the most requests to read or write data that
	// may be outstanding, at most MaxRequests; with 1 nothing overlaps. The
	// client then uses one channel. RequestBytes, if above zero, is the most
	// bytes of each, at most MaxRequestBytes. With either, First has no effect.
	Requests     int
	RequestBytes int

	// Delay leaves Nagle's algorithm on (no TCP_NODELAY) in connections that
	// Dial makes.
	Delay bool
}

func (c *Config) setDefaults() {
	set(&c.Conns, DefaultConns)
	set(&c.Lanes, DefaultLanes)
	set(&c.Memory, DefaultMemory)
	set(&c.Timeout, DefaultTimeout)
	if c.Stall == 0 {
		c.Stall = DefaultStall
	}
	if c.Requests > 0 {
		c.Conns, c.Lanes = 1, 1
	}
	if c.Requests > 0 || c.RequestBytes > 0 {
		c.First = ""
	}
	c.Lanes = min(c.Lanes, pipeline.MaxLanes)
	c.Conns = min(c.Conns, pipeline.MaxLanes/c.Lanes)
}

// set sets what is not above zero.
func set[T int | time.Duration](v *T, to T) {
	if *v <= 0 {
		*v = to
	}
}

// Errors of a connection.
var (
	// ErrConnectionLost says that the connection is gone, and there is no
	// other. What was asked for may have happened or not.
	ErrConnectionLost = errors.New("connection lost")

	// ErrStalled says that the server has not moved for too long: see
	// [Config].
	ErrStalled = errors.New("server does not answer")

	// ErrProtocol says that the server does not keep to the protocol.
	ErrProtocol = errors.New("SFTP protocol violated by the server")

	// ErrClosed says that the Client was closed.
	ErrClosed = errors.New("SFTP client closed")
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
	ext    wire.Extensions
	limits wire.Limits
	chunk  [2]int // bytes a READ may ask for, and a WRITE may carry
	draft  bool   // the server takes SYMLINK in the draft's order

	keepEvery int64 // see keepEvery; less in tests

	ctx     context.Context // ends with the Client
	stop    context.CancelCauseFunc
	work    sync.WaitGroup // the Client's goroutines
	connect func(context.Context) (carrier, error)

	mu        sync.Mutex
	link      *pipeline.Link         // mu
	ops       *pipeline.Ops          // mu
	table     askedTable             // mu
	conns     []*connection          // mu
	lanes     []*lane                // mu: by number; nil where there is none
	careful   bool                   // mu: how channels are opened, see lane.greet
	opening   int                    // mu: lanes
	queue     fifo[*transfer]        // mu: those that may have something to ask
	calls     fifo[*call]            // mu: those not sent yet
	transfers map[*transfer]struct{} // mu
	held      int64                  // mu: bytes in buffers of files
	segments  []*segment             // mu: not used
	first     *firstFile             // mu: nil if there is none, or it was taken
	closing   int                    // mu: handles whose CLOSE nobody waits for, and that is not answered
	drained   chan struct{}          // mu: closed when Drain should look again; nil if nobody waits
	last      error                  // mu: why a lane ended last
	losses    losses                 // mu
	foundFull time.Time              // mu: when the server's disk was found full; see isFull
	err       error                  // mu: why no more can be done
}

// New opens an SFTP session on a connection, which remains the caller's
// to close, after the Client.
func New(ctx context.Context, conn *ssh.Client, config Config) (*Client, error) {
	var connect func(context.Context) (carrier, error)
	if config.Connect != nil {
		connect = func(ctx context.Context) (carrier, error) {
			c, err := config.Connect(ctx)
			if err != nil {
				return nil, err
			}
			return newSSHCarrier(c), nil
		}
	}
	c, err := newClient(ctx, newSSHCarrier(conn), false, config, connect)
	if err != nil {
		return nil, fmt.Errorf("begin SFTP session: %w", err)
	}
	return c, nil
}

// newClient begins with one connection. If it is owned, it is closed with the
// Client, or if there is an error.
func newClient(ctx context.Context, first carrier, owned bool, config Config, connect func(context.Context) (carrier, error)) (*Client, error) {
	config.setDefaults()
	c := &Client{config: config, connect: connect, transfers: map[*transfer]struct{}{}, keepEvery: keepEvery}
	c.ctx, c.stop = context.WithCancelCause(context.Background())
	conn := &connection{carrier: first, owned: owned, limit: config.Lanes, opening: 1}
	c.conns = []*connection{conn}
	ctx, cancel := context.WithTimeoutCause(ctx, config.Timeout, errHandshakeTime)
	defer cancel()
	l, g, err := c.firstLane(ctx, conn)
	if err != nil {
		c.stop(err)
		if owned {
			_ = first.Close()
		}
		return nil, err
	}
	c.ext, c.limits = g.ext, g.limits
	if s, ok := first.(sshCarrier); ok {
		c.draft = wire.ServerSwapsLinks(string(s.client.ServerVersion()), string(s.client.ClientVersion()))
	}
	c.chunk[0] = c.chunkFor(g.limits.Read)
	c.chunk[1] = c.chunkFor(g.limits.Write)
	limits := pipeline.Limits{MaxBytes: config.Memory, Lanes: config.Lanes * config.Conns}
	if n := min(config.Requests, MaxRequests); n > 0 {
		limits.Requests = n
		limits.MaxBytes = min(config.Memory, n*max(c.chunk[0], c.chunk[1]))
	}
	c.link = pipeline.NewLink(limits)
	c.ops = pipeline.NewOps(pipeline.OpsLimits{Min: minCalls})
	c.mu.Lock()
	c.first = g.first
	c.startLane(l)
	c.mu.Unlock()
	return c, nil
}

// chunkFor returns how many bytes of data a request is about, of which a server
// says that it takes so many, or 0 if it does not say.
func (c *Client) chunkFor(limit uint64) int {
	n := wire.SureData
	if limit > 0 {
		n = int(min(limit, wire.CommonData))
		if p := c.limits.Packet; p > packetRoom {
			n = min(n, int(min(p-packetRoom, wire.CommonData)))
		}
	}
	if want := c.config.RequestBytes; want > 0 {
		n = min(n, want)
	}
	return max(1, min(n, c.config.Memory))
}

// Close ends all lanes, and the connections that the Client made. Calls under
// way fail with [ErrClosed]. It does not wait for the server, but for what
// [Client.Drain] does.
func (c *Client) Close() error {
	c.Drain()
	c.mu.Lock()
	closed := c.err
	c.fail(ErrClosed)
	conns := c.conns
	c.conns = nil
	c.mu.Unlock()
	c.stop(ErrClosed)
	for _, conn := range conns {
		if conn.owned && conn.carrier != nil { // one that is being made ends by itself
			_ = conn.carrier.Close()
		}
	}
	c.work.Wait()
	if errors.Is(closed, ErrClosed) {
		return closed
	}
	return nil
}

// fail ends all that is under way. The caller holds mu.
func (c *Client) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	for _, l := range c.lanes {
		if l != nil {
			l.fail(c.err)
		}
	}
	c.failWaiting(c.err)
	c.wakeDrain()
}

// failWaiting fails what cannot go on without a lane. The caller holds mu.
func (c *Client) failWaiting(err error) {
	for {
		k, ok := c.calls.pop()
		if !ok {
			break
		}
		k.end(err)
	}
	for t := range c.transfers {
		if len(t.file.handles) == 0 || c.err != nil {
			t.file.fail(err)
			t.fail(err)
		}
	}
}

// A Path says what a Client knows of the way to its server.
type Path struct {
	Conns, Lanes int           // that are open
	Window       int           // bytes that may be on their way
	InFlight     int           // bytes that are
	RoundTrip    time.Duration // the least of late; 0 if not known yet
	Rate         int64         // the best of late, bytes a second
	ReadBytes    int           // most bytes a request to read
	WriteBytes   int           // most bytes a request to write
}

// Path returns what is known of the way to the server now.
func (c *Client) Path() Path {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Path{
		Conns: len(c.conns), Lanes: c.open(), Window: c.link.Window(), InFlight: c.outstanding(),
		RoundTrip: c.link.RoundTrip(), Rate: c.link.Rate(), ReadBytes: c.chunk[0], WriteBytes: c.chunk[1],
	}
}

// Offers reports whether the server has announced an extension that the Client
// knows, such as "posix-rename@openssh.com".
func (c *Client) Offers(extension string) bool {
	for _, p := range c.ext.Pairs() {
		if p.Name == extension {
			return true
		}
	}
	return false
}

// A fifo is a queue that takes and gives at constant cost.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) push(v T) {
	if len(q.items) == cap(q.items) && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

func (q *fifo[T]) pop() (v T, ok bool) {
	if q.len() == 0 {
		return v, false
	}
	var zero T
	v, q.items[q.head] = q.items[q.head], zero
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return v, true
}

// remove takes one out of a queue, wherever it is.
func remove[T comparable](q *fifo[T], v T) {
	if i := slices.Index(q.items[q.head:], v); i >= 0 {
		q.items = slices.Delete(q.items, q.head+i, q.head+i+1)
	}
}
