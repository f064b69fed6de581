package sftp

import (
	"errors"
	"io/fs"
	"net"
	"strconv"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/store"
)

const (
	// maxRefusals is how much of what is refused to one connection is reported, of
	// Refusals and of Operations that only look.
	maxRefusals = 32

	// maxRefusal is how many bytes of a text are reported.
	maxRefusal = 200
)

// mayReport counts what was refused, and returns whether it is to be reported, and
// whether that is the last.
func (c *userConn) mayReport() (report, last bool) {
	n := c.refusals.Add(1)
	return n <= maxRefusals, n == maxRefusals
}

// refused reports a request of SSH that the server refused.
func (c *userConn) refused(what, detail string) {
	if c.server.Refused == nil {
		return
	}
	if report, last := c.mayReport(); report {
		c.server.Refused(&Refusal{
			Conn: c.info, Last: last,
			What: what[:min(len(what), maxRefusal)], Detail: detail[:min(len(detail), maxRefusal)],
		})
	}
}

// looked reports a request that only looks, if that was forbidden, or the files cannot be
// reached. It returns err.
func (s *session) looked(what, name string, err error) error {
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, store.ErrUnavailable) || s.conn.server.Audit == nil {
		return err
	}
	if report, _ := s.conn.mayReport(); report {
		return s.conn.audit(what, name, "", err)
	}
	return err
}

// audit reports an operation. It returns err.
func (c *userConn) audit(what, name, to string, err error) error {
	if c.server.Audit != nil {
		c.server.Audit(&Operation{Conn: c.info, What: what, Name: shown(name), To: to, Err: err})
	}
	return err
}

// addressIn returns the address that a forwarding is wanted to or of (RFC 4254,
// section 7), as far as there is one.
func addressIn(b []byte) string {
	var m struct {
		Host string
		Port uint32
		Rest []byte `ssh:"rest"`
	}
	if ssh.Unmarshal(b, &m) == nil {
		return net.JoinHostPort(m.Host, strconv.FormatUint(uint64(m.Port), 10))
	}
	return ""
}
