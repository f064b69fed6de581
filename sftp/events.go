package sftp

import (
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/store"
)

// A Conn describes one connection to the hooks of a [Server]. The fields after Value are set when
// the connection is closed.
type Conn struct {
	Peer, Local net.Addr
	Began       time.Time

	// User is the account's user. Before the login, it is the name that was tried last: any string.
	User    string
	Client  string   // the client's SSH version string
	Account *Account // the account that the Login hook returned; nil before the login

	Value any // free for use by the program's hooks

	Err      error // why the connection was closed; nil if the client closed it
	Duration time.Duration

	traffic
}

// A traffic counts bytes of file content that a connection or a transfer has moved.
type traffic struct{ sent, received atomic.Int64 }

// Sent returns how many bytes of files the client has read so far.
func (t *traffic) Sent() int64 { return t.sent.Load() }

// Received returns how many bytes of files the client has written so far.
func (t *traffic) Received() int64 { return t.received.Load() }

// A Transfer describes one open file to the hooks of a [Server]. The fields after Value are set
// when the file is closed.
type Transfer struct {
	Conn        *Conn
	Name        string // as the client sees it: clean, beginning with a slash
	Path        string // the file's path on the disk; "" if unknown
	Read, Write bool   // whether the file is open for reading and for writing
	Hidden      bool   // the file stays invisible until it is closed
	Began       time.Time

	Value any // free for use by the program's hooks

	// Err is the first error of the transfer. It is [ErrAbandoned] if the client left without
	// closing the file, and wraps [ErrEnded] if the server closed the connection.
	Err      error
	Duration time.Duration

	// Part is set if other open handles continue the same upload. The file is not published yet.
	Part bool

	// Published is the state of the written file when this handle was closed. It is nil if the file
	// was only read or was not published, if another handle completes the upload, or if the store
	// cannot describe the file.
	Published *store.Published

	traffic
}

// written sets Published for a file that was written in place through the handle h.
func (t *Transfer) written(h store.Handle) {
	if info, err := h.Stat(); err == nil {
		t.Published = &store.Published{Info: info, When: time.Now()}
	}
}

// An Operation describes one request to the audit hook of a [Server]: a request that changes
// something other than the content of files, a request to open a file that failed, or a request
// that only reads and was forbidden, for example because of a link that leads out of the tree.
type Operation struct {
	Conn *Conn

	// The field What names the request: "mkdir", "remove", "rmdir", "rename", "link", "symlink",
	// "setattr", "check-file", or a program that hashes, such as "md5sum"; also "open" if it
	// failed, and "stat", "opendir" or "readlink" if they were forbidden.
	What string
	Name string // as the client sees it: clean, beginning with a slash
	To   string // the new name, or the target of a symbolic link; "" in all other requests
	Err  error  // nil if the operation succeeded
}

// A Refusal describes to the Refused hook of a [Server] a request for a part of SSH that the server
// lacks: a shell or a command, a terminal, another subsystem, a forwarding in either direction, or
// more sessions than the limit.
type Refusal struct {
	Conn *Conn

	// The field What names the request or the channel type (RFC 4254): "shell", "exec",
	// "direct-tcpip" or "tcpip-forward". It is "session" if there are too many sessions.
	What string

	// Detail is the command, the subsystem or the address of the request, if it has one. The client
	// chose this string, so it may contain anything.
	Detail string

	// Last marks the last refusal of a connection that is reported. Later ones are dropped.
	Last bool
}

// A Lockout reports that a network is refused for a time, because of too many failures.
type Lockout struct {
	Network   netip.Prefix
	For       time.Duration // how long the network is refused, from now on; further failures prolong it
	Passwords bool          // true if only password logins are refused; false if all connections are
}

// fail sets the error of the transfer, unless it has one already.
func (t *Transfer) fail(err error) {
	if t.Err == nil {
		t.Err = err
	}
}

// shown converts a name of the store to the path that the client uses for it.
func shown(name string) string {
	if name == "." {
		return "/"
	}
	return "/" + name
}
