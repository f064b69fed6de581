package sftpd

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/users"
)

// However many requests for absent names a client sends, the log has a bounded number of short
// lines about them, and says how many it has left out. All lines about changes remain.
func TestSFTPLogFlood(t *testing.T) {
	var out bytes.Buffer
	l := newLog(slog.New(slog.NewTextHandler(&out, nil)), nil)
	const flood, changes = 1000, 200
	long := "/" + strings.Repeat("\x01", 200_000)
	conn := &sftp.Conn{User: "alice", Peer: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 5}, Local: &net.TCPAddr{}}
	fail := &fs.PathError{Op: "open", Path: long, Err: fs.ErrNotExist}
	attempt := l.begin(tcpConn{peer: conn.Peer, local: conn.Local})
	for range flood {
		l.operation(&sftp.Operation{Conn: conn, What: "open", Name: long, Err: fail})
		l.operation(&sftp.Operation{Conn: conn, What: "symlink", Name: long, To: long, Err: fs.ErrPermission})
		l.refused(&sftp.Refusal{Conn: conn, What: "direct-tcpip"})
		l.ended(&sftp.Transfer{Conn: conn, Name: long, Path: long, Write: true, Err: fail})
		attempt(users.Event{Outcome: users.Refused, User: long, Method: "password"})
	}
	for range changes {
		l.operation(&sftp.Operation{Conn: conn, What: "mkdir", Name: "/there"})
		l.ended(&sftp.Transfer{Conn: conn, Name: "/there", Read: true})
	}
	l.few.Flush()
	l.Close()
	requests, logins, there, left := 0, 0, 0, 0
	for line := range strings.Lines(out.String()) {
		switch {
		case strings.Contains(line, `msg="sftp: lines left out"`):
			var n int
			_, after, _ := strings.Cut(line, " lines=")
			if _, err := fmt.Sscan(after, &n); err != nil {
				t.Error(err)
			}
			left += n
			continue
		case strings.Contains(line, "file=/there"):
			there++
		case strings.Contains(line, `msg="sftp login"`):
			logins++
		default:
			requests++
		}
		if len(line) > 8<<10 {
			t.Fatalf("a line has %d bytes", len(line))
		}
	}
	if requests > 200 || logins > 200 || requests == 0 || logins == 0 || requests+logins+left != 5*flood || there != 2*changes {
		t.Errorf("%d lines about requests, %d about logins, %d left out, %d about changes", requests, logins, left, there)
	}
}

// A tcpConn is a connection that has only addresses.
type tcpConn struct {
	net.Conn
	peer, local net.Addr
}

func (c tcpConn) RemoteAddr() net.Addr { return c.peer }
func (c tcpConn) LocalAddr() net.Addr  { return c.local }
