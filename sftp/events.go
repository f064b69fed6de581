package sftp

import (
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/store"
)

// A Conn describes one connection to the hooks of a [Server]. The fields below Value
// are known at its end.
type Conn struct {
	Peer, Local net.Addr
	Began       time.Time
	User        string   // the account's; before the login, the name last tried, which may be anything
	Client      string   // the version that the client gave
	Account     *Account // what Login returned; nil before

	Value any // for the program that set Connected

	Err      error // why it ended, nil if the client ended it
	Duration time.Duration

	traffic
}

// A traffic counts bytes of files.
type traffic struct{ sent, received atomic.Int64 }

// Sent returns how many bytes of files the client has read so far.
func (t *traffic) Sent() int64 { return t.sent.Load() }

// Received returns how many bytes of files the client has written so far.
func (t *traffic) Received() int64 { return t.received.Load() }

// A Transfer describes one open file to the hooks of a [Server]. The fields below
// Value are known at its end.
type Transfer struct {
	Conn        *Conn
	Name        string // as the client sees it: clean, beginning with a slash
	Path        string // on the disk; "" where that is not known
	Read, Write bool   // what it is open for
	Hidden      bool   // the file is not visible before it is closed
	Began       time.Time

	Value any // for the program that set Started

	// Err is the first that went wrong, be it that the client closed nothing
	// and went: [ErrAbandoned]; or that the server ended its connection: [ErrEnded].
	Err      error
	Duration time.Duration

	// Part is set if other handles continue the upload: the file is not there yet.
	Part bool

	// Published is the file that was written, as it was when this handle was closed. It is
	// nil of one that was only read, has no name, or has other handles that end it, and
	// where the files cannot tell.
	Published *store.Published

	traffic
}

// written notes the file that a handle has written in place.
func (t *Transfer) written(h store.Handle) {
	if info, err := h.Stat(); err == nil {
		t.Published = &store.Published{Info: info, When: time.Now()}
	}
}

// An Operation describes to the audit hook of a [Server] one request that changes
// something, other than what is in files; of one that opens a file and fails; and
// of one that only looks, where that is forbidden, such as by a link that leads
// out of the tree.
type Operation struct {
	Conn *Conn
	What string // "mkdir", "remove", "rmdir", "rename", "link", "symlink", "setattr", "check-file", or a program that hashes such as "md5sum"; "open" if that failed; "stat", "opendir" or "readlink" if forbidden
	Name string // as the client sees it: clean, beginning with a slash
	To   string // the new name; of a symbolic link, what it says
	Err  error  // why it failed; nil if it did not
}

// A Refusal describes to the Refused hook of a [Server] something that a client asked
// SSH for, and that there is not here: a shell or a command, a terminal, another
// subsystem, a forwarding either way, or more sessions than there may be.
type Refusal struct {
	Conn *Conn
	What string // as the client called it (RFC 4254): "shell", "exec", "direct-tcpip", "tcpip-forward"; "session" if there are too many

	// Detail is the command, the subsystem, or the address, as far as there is
	// one: text of the client's, which may be anything.
	Detail string

	// Last is set on the last of a connection's that is reported.
	Last bool
}

// A Lockout says that a network is refused for a time, after too many failures.
type Lockout struct {
	Network   netip.Prefix
	For       time.Duration // from now on; further failures prolong it
	Passwords bool          // only passwords are refused; otherwise connections are
}

// fail notes what went wrong first.
func (t *Transfer) fail(err error) {
	if t.Err == nil {
		t.Err = err
	}
}

// shown returns the path by which a client knows a name of the store.
func shown(name string) string {
	if name == "." {
		return "/"
	}
	return "/" + name
}
