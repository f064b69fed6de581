// Package sftp serves files over SFTP, on golang.org/x/crypto/ssh or on any stream that a
// program has. Package sftpclient is the client.
//
// A [Server] logs users in by the program's own ssh.ServerConfig, and serves each of them the
// tree of an [Account], a store.Tree. It needs no account of the operating system and starts
// no process. It speaks version 3 of the protocol with OpenSSH's extensions, as clients do.
//
// A first program logs users in by a password file of package users:
//
//	s := &sftp.Server{
//		SSH: func(context.Context, net.Conn) (*ssh.ServerConfig, error) { return config, nil },
//		Login: func(_ context.Context, c *ssh.ServerConn) (*sftp.Account, error) {
//			return &sftp.Account{User: c.User(), Tree: tree}, nil
//		},
//	}
//	err := s.Serve(ctx, listener)
//
// What the server does with each request, its limits and its deviations are described in
// https://github.com/haul-project/haul/blob/main/docs/sftp.md.
//
// # Stability
//
// The package is young: until version 1 its names can change in any release, and the
// changelog says how. Errors are for people; their texts can change at any time.
package sftp

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/internal/penalty"
	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/internal/sshconn"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
)

// These are the defaults for zero fields of a [Server].
const (
	DefaultMaxChannels = 10 // as MaxSessions of sshd_config(5)
	DefaultMaxHandles  = 1024

	defaultLoginGrace  = time.Minute
	defaultIdleTimeout = 15 * time.Minute
	defaultGrace       = 10 * time.Second
	defaultUmask       = 0o022
)

// A Server serves files over SFTP, and nothing else: there are no shells, no
// terminals and no forwarding. The only commands are md5sum, sha1sum and sha256sum,
// by which clients such as rclone check copies; the server computes the hashes
// itself, for accounts that may read. SSH and Login must be set; all else is ready
// for use as it is. Its fields must not change once it serves.
//
// With the users of package users:
//
//	s := &sftp.Server{
//		SSH: func(context.Context, net.Conn) (*ssh.ServerConfig, error) {
//			c := base // with the host keys
//			dir.Configure(&c, users.Options{})
//			return &c, nil
//		},
//		Login: func(_ context.Context, c *ssh.ServerConn) (*sftp.Account, error) {
//			l, ok := users.LoginOf(c.Permissions)
//			if !ok {
//				return nil, errors.New("no user has logged in")
//			}
//			return &sftp.Account{User: l.User.Name, Tree: tree, Dir: l.Dir, Access: l.Access, Rate: l.User.Limit}, nil
//		},
//	}
type Server struct {
	// SSH returns the configuration for one connection: the host keys, and how to log in. It
	// is called before anything is read. ctx ends with the connection, and an error ends the
	// connection. The server uses a copy, so several connections may share the
	// configuration. In the copy it fills in an empty version, and algorithms that are not
	// weak (see [Algorithms]). RSA host keys and their certificates should be limited to
	// SHA-2 (ssh.NewSignerWithAlgorithms). Otherwise SHA-1 is offered too, and a client that
	// chooses it is refused.
	SSH func(ctx context.Context, c net.Conn) (*ssh.ServerConfig, error)

	// Login returns the account of a user who has logged in. It should decide by
	// c.Permissions alone. ctx ends with the connection, and an error ends the connection.
	Login func(ctx context.Context, c *ssh.ServerConn) (*Account, error)

	// These hooks, if set, are called by the goroutine on which the event happens. Work that
	// takes longer than a moment belongs on another goroutine. All calls about one connection
	// get the same *Conn, and all calls about one file the same *Transfer.
	Connected    func(*Conn)                        // a user has logged in
	Disconnected func(*Conn)                        // a connection is over, or a login has failed
	Started      func(*Transfer)                    // a file was opened
	Ended        func(*Transfer)                    // and is closed
	Audit        func(*Operation)                   // another change was made or refused
	Refused      func(*Refusal)                     // a client asked for a part of SSH that the server lacks
	TurnedAway   func(from net.Addr, why error)     // refused by a limit, before a byte was read
	LockedOut    func(from net.Addr, l Lockout)     // a network is refused for a time, after too many failures
	Owner        func(id uint32, group bool) string // the name of a user or group, for users-groups-by-id@openssh.com; "" if unknown

	LoginGrace  time.Duration // for all of the handshake; 0 means one minute
	IdleTimeout time.Duration // ends a connection without requests and replies; 0 means 15 minutes, below 0 never
	Grace       time.Duration // how long open files may be used on after the end; 0 means 10 s
	MaxChannels int           // sessions of one connection; 0 means DefaultMaxChannels
	MaxHandles  int           // files and directories that one connection has open; 0 means DefaultMaxHandles
	Umask       int           // bits that new files and directories do not get; 0 means 0o022, below 0 none
	Rate        int64         // bytes a second each way, of all together; 0 means no limit

	// Limits on connections, like MaxStartups and PerSourcePenalties of sshd_config(5). A
	// source is an IPv4 address or an IPv6 network of 64 bits. After too many wrong
	// passwords, a source may log in by other means only, for a time that grows. A source
	// that connects again and again without a login is refused. Both extend in part to the
	// networks around the source. Connections beyond MaxHandshakes and MaxHandshakesPerSource
	// wait for their turn, for LoginGrace at most: 64 of one source, and 512 in all.
	MaxConns               int            // at a time; 0 means 4096
	MaxConnsPerSource      int            // of one source; 0 means 256
	MaxHandshakes          int            // not logged in yet; 0 means 100
	MaxHandshakesPerSource int            // of one source; 0 means 10
	Exempt                 []netip.Prefix // not refused for failures, and without limits for one source

	once     sync.Once
	guard    penalty.Guard
	rate     rate.Pair
	accounts rate.Accounts[string]
	pending  pendingUploads
	windows  wideWindows
	hashing  chan struct{} // a place for each hash that may be computed at a time
	counts   counts
}

// An Account is what a user has access to after the login.
type Account struct {
	// User names the account. Connections of one User share the Rate and see
	// each other's hidden uploads, so they must have the same files. Empty, it
	// is the name that was given at login.
	User string

	Tree   store.Tree   // what the user sees as /
	Dir    string       // where the user begins: below /, slash-separated; "" means /
	Access users.Access // what the user may do with it; zero means all
	Rate   int64        // bytes a second each way; 0 means no limit

	// Home returns where "~" and the home-directory extension lead for a user of that name,
	// as the client sees it, or false if there is none. Without it, the account's own user
	// is at home in Dir, and nobody else anywhere.
	Home func(user string) (dir string, ok bool)

	// Resolve returns what an absolute path leads to, without symbolic links and "..", as
	// realpath(3) does; but the last element need not exist. It answers REALPATH, and says
	// what ".." means behind a link. Without it paths are taken as text.
	Resolve func(path string) (string, error)

	// CreateOnly takes from full access the right to change or remove what was there
	// before the connection: see [store.CreateOnly].
	CreateOnly bool

	// Refused are the names of requests that are answered by PERMISSION_DENIED, as
	// [Requests] has them; with any other name there is no login. Extensions among them
	// are not announced.
	Refused []string

	// Hidden keeps files from sight while they are uploaded. One that is opened
	// for writing only, and created or emptied, is published when it is closed, and
	// discarded if the connection ends before. Its user can describe and change
	// it by its name meanwhile, and open it again to write to it from several
	// channels and connections. Any other use of the name, such as to
	// rename it, publishes it at once, and so does a copy-data of a whole file.
	Hidden bool

	// Life ends the connection when it ends, if set, and its cause is why: what
	// was open then, and the connection, have it for their error.
	Life context.Context

	// Close is called when the connection is over, if set.
	Close func()
}

// Counters is what a server has done and is doing.
type Counters struct {
	Conns, Handshakes int   // now: connections, and those of them not logged in
	Sessions, Handles int64 // now: channels that speak SFTP, and what they have open

	Logins     int64 // that succeeded
	Failures   int64 // connections that ended without one
	TurnedAway int64 // connections refused by a limit
	Panics     int64 // each has ended a connection
	Stuck      int64 // connections of which something is left behind in x/crypto, which is a few MB at most
	Sent       int64 // bytes of files read by clients
	Received   int64 // bytes of files written by them
}

// counts is the part of Counters that is not kept elsewhere.
type counts struct {
	sessions, handles                    atomic.Int64
	logins, failures, turnedAway, panics atomic.Int64
	stuck                                atomic.Int64
	sent, received                       atomic.Int64
}

// Prepare looks up what Serve would ask the system for. It is for programs that
// drop the right to read its files before they serve; others need not call it.
func (s *Server) Prepare() { sshconn.LargestSend() }

// Counters returns the counters as they are.
func (s *Server) Counters() Counters {
	s.once.Do(s.init)
	conns, handshakes := s.guard.Live()
	return Counters{
		Conns: conns, Handshakes: handshakes,
		Sessions: s.counts.sessions.Load(), Handles: s.counts.handles.Load(),
		Logins: s.counts.logins.Load(), Failures: s.counts.failures.Load(),
		TurnedAway: s.counts.turnedAway.Load(), Panics: s.counts.panics.Load(), Stuck: s.counts.stuck.Load(),
		Sent: s.counts.sent.Load(), Received: s.counts.received.Load(),
	}
}

// check reports settings that make no sense.
func (s *Server) check() error {
	if s.SSH == nil || s.Login == nil {
		return errors.New("sftp: the server lacks SSH or Login")
	}
	return nil
}

// init sets what is not set, and makes what is shared by connections.
func (s *Server) init() {
	s.guard = penalty.Guard{
		MaxConns:               s.MaxConns,
		MaxConnsPerSource:      s.MaxConnsPerSource,
		MaxHandshakes:          s.MaxHandshakes,
		MaxHandshakesPerSource: s.MaxHandshakesPerSource,
		Exempt:                 s.Exempt,
	}
	s.rate.Set(s.Rate)
	s.hashing = make(chan struct{}, hashers())
}

func (s *Server) loginGrace() time.Duration { return orDefault(s.LoginGrace, defaultLoginGrace) }
func (s *Server) grace() time.Duration      { return orDefault(s.Grace, defaultGrace) }
func (s *Server) maxChannels() int          { return orDefault(s.MaxChannels, DefaultMaxChannels) }
func (s *Server) maxHandles() int           { return orDefault(s.MaxHandles, DefaultMaxHandles) }

// idleTimeout returns 0 if there is none.
func (s *Server) idleTimeout() time.Duration {
	return max(0, orDefault(s.IdleTimeout, defaultIdleTimeout))
}

func (s *Server) umask() fs.FileMode {
	return fs.FileMode(max(0, orDefault(s.Umask, defaultUmask))) & fs.ModePerm
}

func orDefault[T int | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// hashers returns how many may hash at a time. There are cores left for those
// that move data.
func hashers() int { return max(1, runtime.GOMAXPROCS(0)/2) }
