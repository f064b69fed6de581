// Package sftp serves files over SFTP, on golang.org/x/crypto/ssh or on any stream that a
// program has. Package sftpclient is the client.
//
// A [Server] logs users in with the program's own ssh.ServerConfig, and serves each of them the
// tree of an [Account], a store.Tree. It needs no account of the operating system and starts no
// process. It speaks version 3 of the protocol with OpenSSH's extensions, as most clients do.
//
// This is a first program, where config is an ssh.ServerConfig and tree is a store.Tree:
//
//	s := &sftp.Server{
//		SSH: func(context.Context, net.Conn) (*ssh.ServerConfig, error) { return config, nil },
//		Login: func(_ context.Context, c *ssh.ServerConn) (*sftp.Account, error) {
//			return &sftp.Account{User: c.User(), Tree: tree}, nil
//		},
//	}
//	err := s.Serve(ctx, listener)
//
// The page https://github.com/haul-project/haul/blob/main/docs/sftp.md describes how the server
// handles each request, and its limits and deviations.
//
// # Stability
//
// Exported names stay within a minor version, such as 0.9. Until 1.0 a new minor version may change
// them: see https://github.com/haul-project/haul/blob/main/docs/versions.md. Errors are for people,
// and their texts may change at any time.
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
	"github.com/haul-project/haul/internal/shares"
	"github.com/haul-project/haul/internal/sshconn"
)

// These are the defaults for fields of a [Server] that are zero.
const (
	DefaultMaxChannels = 10 // the default of MaxSessions in sshd_config(5)
	DefaultMaxHandles  = 1024

	defaultLoginGrace  = time.Minute
	defaultIdleTimeout = 15 * time.Minute
	defaultGrace       = 10 * time.Second
	defaultUmask       = 0o022
)

// A Server serves files over SFTP, and nothing else: there are no shells, no terminals and no
// forwarding. The only commands are md5sum, sha1sum and sha256sum, with which clients such as
// rclone check copies. The server computes these hashes itself, for accounts that may read. SSH and
// Login must be set. All other fields may be zero. No field may change once the server serves.
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
	// SSH returns the configuration for one connection: the host keys, and how to log in. It is
	// called before anything is read. ctx ends with the connection, and an error closes the
	// connection. The server uses a copy, so several connections may share the configuration. If
	// the version or a list of algorithms is empty, the server sets it; it chooses no weak
	// algorithms. RSA host keys and their certificates should be limited to SHA-2
	// (ssh.NewSignerWithAlgorithms). Otherwise SHA-1 is offered too, and a client that chooses it
	// is refused.
	SSH func(ctx context.Context, c net.Conn) (*ssh.ServerConfig, error)

	// Login returns the account of a user who has logged in. It should decide by c.Permissions
	// alone. ctx ends with the connection, and an error closes the connection.
	Login func(ctx context.Context, c *ssh.ServerConn) (*Account, error)

	// The server calls these hooks, if they are set, on the goroutine where the event happens. A
	// hook should return at once, and leave longer work to another goroutine. All calls for one
	// connection receive the same *Conn, and all calls for one file the same *Transfer.
	Connected    func(*Conn)                    // a user has logged in
	Disconnected func(*Conn)                    // a connection was closed, or a login has failed
	Started      func(*Transfer)                // a file was opened
	Ended        func(*Transfer)                // a file was closed
	Audit        func(*Operation)               // a request of another kind was completed or refused: see Operation
	Refused      func(*Refusal)                 // a client asked for a part of SSH that the server lacks
	TurnedAway   func(from net.Addr, why error) // a limit refused a connection before a byte was read from it
	LockedOut    func(from net.Addr, l Lockout) // a network is refused for a time, after too many failures

	// Owner returns the name of the user with an ID or, if group is set, of the group with that ID.
	// It returns "" for an unknown ID. It is used for users-groups-by-id@openssh.com.
	Owner func(id uint32, group bool) string

	LoginGrace time.Duration // time limit for the whole handshake; 0 means one minute

	// IdleTimeout is the time without requests and replies after which a connection is closed. 0
	// means 15 minutes, and a negative value means never.
	IdleTimeout time.Duration
	Grace       time.Duration // how long open files remain usable after the context of Serve has ended; 0 means 10 s
	MaxChannels int           // sessions of one connection at a time; 0 means DefaultMaxChannels
	MaxHandles  int           // open files and directories of one connection; 0 means DefaultMaxHandles

	// Umask holds the permission bits that new files and directories do not get. 0 means 0o022, and
	// a negative value means none.
	Umask int

	Rate int64 // bytes a second each way, for all connections together; 0 means no limit

	// Limits on connections, like MaxStartups and PerSourcePenalties of sshd_config(5). A source is
	// an IPv4 address or an IPv6 network with a 64-bit prefix. After too many wrong passwords, the
	// server checks no passwords of the source for a time, which grows; the source may still log in
	// by other means. A source that connects again and again without a login is refused. Both
	// measures extend in part to the networks around the source. Connections beyond MaxHandshakes
	// and MaxHandshakesPerSource wait for their turn, but no longer than LoginGrace. At most 64
	// connections of one source, and 512 in all, may wait.
	MaxConns               int            // connections at a time; 0 means 4096
	MaxConnsPerSource      int            // connections of one source at a time; 0 means 256
	MaxHandshakes          int            // connections that have not logged in yet; 0 means 100
	MaxHandshakesPerSource int            // connections of one source that have not logged in yet; 0 means 10
	Exempt                 []netip.Prefix // sources that have no limits per source and are never refused for failures

	shared shared
}

// Counters are the numbers that a server reports about its work.
type Counters struct {
	Conns, Handshakes int   // open connections, and how many of them have not logged in
	Sessions, Handles int64 // open channels that speak SFTP, and their open files and directories

	Logins     int64 // successful logins
	Failures   int64 // connections that ended without a login
	TurnedAway int64 // connections refused by a limit
	Panics     int64 // panics; each closed one connection
	Stuck      int64 // connections that left behind a goroutine, and at most a few MB, in x/crypto
	Sent       int64 // bytes of files read by clients
	Received   int64 // bytes of files written by clients
}

// A shared holds the state that the connections of a server share.
type shared struct {
	once     sync.Once
	guard    penalty.Guard         // limits connections and passwords, and refuses sources after failures
	rate     rate.Pair             // enforces Server.Rate
	accounts rate.Accounts[string] // enforces Account.Rate for each user
	pending  pendingUploads
	windows  shares.Table // the channels of all connections that have a wide window
	hashing  hashTurns
	counts   counts
}

// counts holds the values of Counters that no other part of the server counts.
type counts struct {
	sessions, handles                    atomic.Int64
	logins, failures, turnedAway, panics atomic.Int64
	stuck                                atomic.Int64
	sent, received                       atomic.Int64
}

// Prepare reads the system settings that Serve would otherwise read itself. A program that drops
// the right to read the system's files before it serves has to call Prepare first. Other programs
// need not.
func (s *Server) Prepare() { sshconn.LargestSend() }

// Counters returns the current values of the server's counters.
func (s *Server) Counters() Counters {
	s.shared.once.Do(s.init)
	conns, handshakes := s.shared.guard.Live()
	return Counters{
		Conns: conns, Handshakes: handshakes,
		Sessions: s.shared.counts.sessions.Load(), Handles: s.shared.counts.handles.Load(),
		Logins: s.shared.counts.logins.Load(), Failures: s.shared.counts.failures.Load(),
		TurnedAway: s.shared.counts.turnedAway.Load(), Panics: s.shared.counts.panics.Load(), Stuck: s.shared.counts.stuck.Load(),
		Sent: s.shared.counts.sent.Load(), Received: s.shared.counts.received.Load(),
	}
}

// check returns an error if a required setting is missing.
func (s *Server) check() error {
	if s.SSH == nil || s.Login == nil {
		return errors.New("sftp: the server lacks SSH or Login")
	}
	return nil
}

// init applies defaults and prepares the shared state.
func (s *Server) init() {
	s.shared.guard = penalty.Guard{
		MaxConns:               s.MaxConns,
		MaxConnsPerSource:      s.MaxConnsPerSource,
		MaxHandshakes:          s.MaxHandshakes,
		MaxHandshakesPerSource: s.MaxHandshakesPerSource,
		Exempt:                 s.Exempt,
	}
	s.shared.rate.Set(s.Rate)
	s.shared.hashing.places = make(chan struct{}, hashers())
}

func (s *Server) loginGrace() time.Duration { return orDefault(s.LoginGrace, defaultLoginGrace) }
func (s *Server) grace() time.Duration      { return orDefault(s.Grace, defaultGrace) }
func (s *Server) maxChannels() int          { return orDefault(s.MaxChannels, DefaultMaxChannels) }
func (s *Server) maxHandles() int           { return orDefault(s.MaxHandles, DefaultMaxHandles) }

// idleTimeout returns the time without requests and replies after which a connection is closed, or 0
// if there is no such limit.
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

// hashers returns how many hashes may be computed at a time. It leaves half of the cores to
// sessions that move data.
func hashers() int { return max(1, runtime.GOMAXPROCS(0)/2) }
