package sftp

import (
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/store"
)

// A Conn describes one connection to the hooks of a [Server]. The fields below Value are set when
// it ends.
type Conn struct {
	Peer, Local net.Addr
	Began       time.Time
	User        string   // the account's user; before the login, the name that was tried last, which may be any text
	Client      string   // the client's version string
	Account     *Account // the result of Login; nil before

	Value any // free for use by the program's hooks

	Err      error // why the connection ended; nil if the client ended it
	Duration time.Duration

	traffic
}

// A traffic counts bytes of files.
type traffic struct{ sent, received atomic.Int64 }

// Sent returns how many bytes of files the client has read so far.
func (t *traffic) Sent() int64 { return t.sent.Load() }

// Received returns how many bytes of files the client has written so far.
func (t *traffic) Received() int64 { return t.received.Load() }

// A Transfer describes one open file to the hooks of a [Server]. The fields below Value are set
// when it is closed.
type Transfer struct {
	Conn        *Conn
	Name        string // as the client sees it: clean, beginning with a slash
	Path        string // the file's path on the disk; "" if unknown
	Read, Write bool   // the access with which it is open
	Hidden      bool   // the file is not visible before it is closed
	Began       time.Time

	Value any // free for use by the program's hooks

	// Err is the first error of the transfer. It is [ErrAbandoned] if the client left without
	// closing the file, and wraps [ErrEnded] if the server ended the connection.
	Err      error
	Duration time.Duration

	// Part is set if other handles continue the upload. The file is not published yet.
	Part bool

	// Published is the written file as it was when this handle was closed. It is nil if the file
	// was only read or was not published, if another handle ends the upload, or if the store cannot
	// describe the file.
	Published *store.Published

	traffic
}

// written records the state of a file that a handle has written in place.
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
	What string // "mkdir", "remove", "rmdir", "rename", "link", "symlink", "setattr", "check-file", or a program that hashes, such as "md5sum"; "open" if it failed; "stat", "opendir" or "readlink" if forbidden
	Name string // as the client sees it: clean, beginning with a slash
	To   string // the new name, or the target of a symbolic link
	Err  error  // nil if it succeeded
}

// A Refusal describes to the Refused hook of a [Server] a part of SSH that a client asked for and
// that the server lacks: a shell or a command, a terminal, another subsystem, a forwarding in
// either direction, or more sessions than the limit.
type Refusal struct {
	Conn *Conn
	What string // as the client named it (RFC 4254): "shell", "exec", "direct-tcpip", "tcpip-forward"; "session" if there are too many

	// Detail is the command, the subsystem or the address, if there is one. The client chose this
	// text, so it may be anything.
	Detail string

	// Last is set on the last refusal of a connection that is reported.
	Last bool
}

// A Lockout reports that a network is refused for a time, after too many failures.
type Lockout struct {
	Network   netip.Prefix
	For       time.Duration // from now on; further failures prolong it
	Passwords bool          // only passwords are refused; otherwise connections are
}

// fail records the first error.
func (t *Transfer) fail(err error) {
	if t.Err == nil {
		t.Err = err
	}
}

// shown returns the client's path of a name of the store.
func shown(name string) string {
	if name == "." {
		return "/"
	}
	return "/" + name
}
