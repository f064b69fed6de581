package sftpserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/sftp"
)

// A log writes messages as OpenSSH's sftp-server does: to syslog or to standard error.
type log struct {
	level Level
	write func(l Level, text string)
	close func()
	mu    sync.Mutex
}

// newLog opens a log on stderr, or on syslog if stderr is nil. If this machine has no syslog,
// messages are lost, as they are with OpenSSH.
func newLog(level Level, to Facility, socket string, stderr io.Writer) *log {
	l := &log{level: level, write: func(Level, string) {}, close: func() {}}
	switch {
	case level == levelQuiet:
	case stderr != nil:
		// Lines end in \r\n, because sshd's standard error may be a terminal.
		l.write = func(_ Level, text string) { fmt.Fprintf(stderr, "%s\r\n", text) }
	default:
		if w, closeLog, err := openSyslog(to, socket); err == nil {
			l.write, l.close = w, closeLog
		}
	}
	return l
}

// printf logs a message. Line breaks in names do not begin a new line.
func (l *log) printf(level Level, format string, args ...any) {
	if level > l.level {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write(level, console.Visible(fmt.Sprintf(format, args...)))
}

// observe makes a server report its session to the log.
func (l *log) observe(s *sftp.Server, name string) {
	from := "UNKNOWN"
	if peer, _, ok := strings.Cut(os.Getenv("SSH_CONNECTION"), " "); ok {
		from = peer
	}
	s.Connected = func(*sftp.Conn) {
		l.printf(levelInfo, "session opened for local user %s from [%s]", name, from)
	}
	s.Disconnected = func(c *sftp.Conn) {
		if errors.Is(c.Err, context.Canceled) {
			l.printf(levelInfo, "session ended by a signal")
		} else if c.Err != nil {
			l.printf(levelError, "session failed: %v", c.Err)
		}
		l.printf(levelInfo, "session closed for local user %s from [%s]", name, from)
	}
	s.Started = func(t *sftp.Transfer) { l.printf(levelInfo, "open \"%s\" flags %s", t.Name, flagsOf(t)) }
	s.Ended = l.closed
	s.Audit = l.operation
}

func flagsOf(t *sftp.Transfer) string {
	var flags []string
	if t.Read {
		flags = append(flags, "READ")
	}
	if t.Write {
		flags = append(flags, "WRITE")
	}
	return strings.Join(flags, ",")
}

// closed logs that a file was closed.
func (l *log) closed(t *sftp.Transfer) {
	forced, level, end := "", levelInfo, ""
	if errors.Is(t.Err, sftp.ErrAbandoned) || errors.Is(t.Err, sftp.ErrEnded) {
		if forced = "forced "; t.Hidden {
			end = "; the part that arrived is discarded"
		}
	} else if t.Err != nil {
		level, end = levelError, ": "+t.Err.Error()
	}
	l.printf(level, "%sclose \"%s\" bytes read %d written %d%s", forced, t.Name, t.Sent(), t.Received(), end)
}

// operation logs a change, or a failed or refused attempt to change something.
func (l *log) operation(o *sftp.Operation) {
	text := fmt.Sprintf("%s \"%s\"", o.What, o.Name)
	switch o.What {
	case "mkdir", "remove", "rmdir":
		text = fmt.Sprintf("%s name \"%s\"", o.What, o.Name)
	case "rename", "link":
		text = fmt.Sprintf("%s old \"%s\" new \"%s\"", o.What, o.Name, o.To)
	case "symlink":
		text = fmt.Sprintf("symlink old \"%s\" new \"%s\"", o.To, o.Name)
	case "setattr":
		text = fmt.Sprintf("set \"%s\"", o.Name)
	}
	if o.Err != nil {
		text += ": " + console.WithoutPath(o.Err).Error()
	}
	l.printf(levelInfo, "%s", text)
}
