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
	// maxRefusals is the largest number of refusals that are reported for one connection. Failed
	// requests that only read count too; they are reported as an [Operation].
	maxRefusals = 32

	// maxRefusal is the length, in bytes, to which a reported string from the client is cut.
	maxRefusal = 200
)

// mayReport counts a refusal. It returns whether to report this refusal, and whether it is the last
// one that is reported for the connection.
func (c *userConn) mayReport() (report, last bool) {
	n := c.refusals.Add(1)
	return n <= maxRefusals, n == maxRefusals
}

// refused calls the Refused hook for an SSH request that the server refused. The arguments become
// the fields What and Detail of the [Refusal].
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

// looked calls the Audit hook for a request that only reads, such as a stat, if err says that the
// request was forbidden or that the files are unavailable. It returns err.
func (c *userConn) looked(what, name string, err error) error {
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, store.ErrUnavailable) || c.server.Audit == nil {
		return err
	}
	if report, _ := c.mayReport(); report {
		return c.audit(what, name, "", err)
	}
	return err
}

// audit calls the Audit hook for an operation whose result is err, or nil if the operation
// succeeded. It returns err.
func (c *userConn) audit(what, name, to string, err error) error {
	if c.server.Audit != nil {
		c.server.Audit(&Operation{Conn: c.info, What: what, Name: shown(name), To: to, Err: err})
	}
	return err
}

// addressIn returns the host and the port in a request to forward a port or to open a forwarded
// channel (RFC 4254, section 7), or "" if the request has none.
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
