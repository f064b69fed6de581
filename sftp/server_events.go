package sftp

import (
	"net"
	"sync/atomic"
	"time"
)

// A Conn tells the hooks of a [Server] of one connection. What is below Value is
// known at the end.
type Conn struct {
	Peer, Local net.Addr
	Began       time.Time
	User        string   // the account's; before the login, the name last tried, which may be anything
	Client      string   // the version that the client gave
	Account     *Account // what Login returned; nil before

	Value any // left to whoever set Connected

	Err      error // why it ended, nil if the client ended it
	Duration time.Duration

	sent, received atomic.Int64
}

// Sent returns how many bytes of files the client has read so far.
func (c *Conn) Sent() int64 { return c.sent.Load() }

// Received returns how many bytes of files the client has written so far.
func (c *Conn) Received() int64 { return c.received.Load() }

// A Transfer tells the hooks of a [Server] of one open file. What is below
// Value is known at the end.
type Transfer struct {
	Conn        *Conn
	Name        string // as the client sees it: clean, beginning with a slash
	Read, Write bool   // what it is open for
	Hidden      bool   // nobody sees the file before it is closed
	Began       time.Time

	Value any // left to whoever set Started

	// Err is the first that went wrong, be it that the client closed nothing
	// and went: [ErrAbandoned].
	Err      error
	Duration time.Duration

	sent, received atomic.Int64
}

// Sent returns how many bytes the client has read of the file so far.
func (t *Transfer) Sent() int64 { return t.sent.Load() }

// Received returns how many bytes the client has written to the file so far.
func (t *Transfer) Received() int64 { return t.received.Load() }

// An Operation tells the audit hook of a [Server] of one request that changes
// something, other than what is in files, and of one that opens a file and fails.
type Operation struct {
	Conn *Conn
	What string // "mkdir", "remove", "rmdir", "rename", "link", "symlink" or "setattr"; "open" if that failed
	Name string // as the client sees it: clean, beginning with a slash
	To   string // the new name; of a symbolic link, what it says
	Err  error  // why it came to nothing; nil if it did not
}

// audit tells of an operation. It returns err.
func (s *session) audit(what, name, to string, err error) error {
	if s.conn.server.Audit != nil {
		s.conn.server.Audit(&Operation{Conn: s.conn.info, What: what, Name: shown(name), To: to, Err: err})
	}
	return err
}
