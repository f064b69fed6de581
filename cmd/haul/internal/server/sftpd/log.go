package sftpd

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/server/activity"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/ports"
	"github.com/haul-project/haul/internal/linequeue"
	"github.com/haul-project/haul/internal/penalty"
	"github.com/haul-project/haul/internal/shares"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/users"
)

// A log writes the log of SFTP, and counts transfers for the metrics.
type log struct {
	*linequeue.Log
	counts   *meter.Registry    // nil means that transfers are not counted
	report   *activity.Reporter // nil means that there are no hooks and no audit log
	few      linequeue.Budget   // bounds the lines that strangers can cause
	away     ports.RefusedConns
	locked   linequeue.RateLimited // logs networks that are locked out for some time
	badConns ports.FailedConns     // logs connections without a valid PROXY header

	mu    sync.Mutex
	tries map[string]*tries // login attempts of connections that nobody has logged in on yet, by connKey; guarded by mu
}

// tries records the login attempts of one connection.
type tries struct {
	logged bool   // a failed login of this connection has been logged already
	keys   int    // number of keys that were offered and refused
	key    string // the last key that was refused
	reason string // why the last key was refused
}

func newLog(to *slog.Logger, counts *meter.Registry) *log {
	q := linequeue.NewLog(to)
	return &log{
		Log: q, counts: counts,
		few:    linequeue.Budget{RateLimited: linequeue.RateLimited{Log: q, Message: "sftp: lines left out", Unit: "lines"}},
		away:   ports.NewRefusedConns(q, counts, meter.SFTP),
		locked: linequeue.RateLimited{Log: q, Message: "sftp: locked out"}, tries: map[string]*tries{},
		badConns: ports.FailedConns{RateLimited: linequeue.RateLimited{Log: q, Message: "sftp: connections failed"}, Proxies: "sftp-proxy"},
	}
}

// sayFew logs a line that a stranger can cause, such as one about a missing file, if its source has
// not had too many. The source is the user or, if that is "", the peer. cause is one of a few texts.
func (l *log) sayFew(level slog.Level, cause, user string, peer net.Addr, msg string, attrs ...slog.Attr) {
	if user != "" {
		cause += " of users" // so that the requests of strangers do not hide them
	}
	if l.Enabled(level) && l.few.Take(time.Now(), cause, shares.SourceOf(user, ports.PeerAddr(peer)), ports.Peer(peer)) {
		l.Say(level, msg, attrs...)
	}
}

// These are the causes of lines that strangers can cause.
const (
	failedLogins   = "failed logins"
	failedRequests = "failed requests"
)

// observe makes a server report its connections, transfers and operations to the log.
func (l *log) observe(s *sftp.Server) {
	s.Disconnected, s.Started, s.Ended, s.Audit = l.disconnected, l.started, l.ended, l.operation
	s.Refused, s.LockedOut = l.refused, l.lockedOut
	s.TurnedAway = func(from net.Addr, why error) {
		cause := why.Error()
		var more []slog.Attr
		if r, ok := errors.AsType[*penalty.Refusal](why); ok {
			if cause = string(r.Cause); r.For > 0 {
				more = refusedUntil(r.Source, r.For)
			}
		}
		l.away.Add(from, cause, more...)
	}
}

// lockedOut logs that a network is locked out for some time.
func (l *log) lockedOut(from net.Addr, o sftp.Lockout) {
	cause, refused := "connections without a login", "connections"
	if o.Passwords {
		cause, refused = "wrong passwords", "passwords (keys still work)"
	}
	l.locked.Count(slog.LevelWarn, cause, ports.Peer(from), append(refusedUntil(o.Network, o.For), slog.String("refused", refused))...)
}

// refusedUntil returns two attributes for the log: the network that is locked out, and the time
// when the lockout ends.
func refusedUntil(network netip.Prefix, left time.Duration) []slog.Attr {
	return []slog.Attr{slog.String("network", network.String()), slog.String("until", time.Now().Add(left).Format(time.RFC3339))}
}

// connKey identifies a connection by the addresses of both sides.
func connKey(peer, local net.Addr) string { return peer.String() + " " + local.String() }

// begin begins to record the login attempts of a connection. It returns the function to call for
// each attempt.
func (l *log) begin(c net.Conn) func(users.Event) {
	t := &tries{}
	l.mu.Lock()
	l.tries[connKey(c.RemoteAddr(), c.LocalAddr())] = t
	l.mu.Unlock()
	return func(e users.Event) { l.attempt(t, c.RemoteAddr(), e) }
}

// attempt logs a refused password. For a refused key it only records the key. Clients offer all
// their keys, and the last one may be accepted, so refused keys are logged together when the
// connection ends.
func (l *log) attempt(t *tries, peer net.Addr, e users.Event) {
	switch {
	case e.Outcome == users.Accepted, e.Outcome == users.Partial: // the function accepted logs these
	case e.Key != "" && e.Method == "publickey":
		l.mu.Lock()
		t.keys, t.key, t.reason = t.keys+1, e.Key, e.Reason
		l.mu.Unlock()
	default:
		l.mu.Lock()
		t.logged = true
		l.mu.Unlock()
		l.sayFew(slog.LevelWarn, failedLogins, "", peer, "sftp login", slog.String("result", "refused"), slog.String("user", linequeue.ShortName(e.User)),
			slog.String("peer", ports.Peer(peer)), slog.String("method", e.Method), slog.String("error", e.Reason))
		l.report.Login(meter.SFTP, ports.Peer(peer), e)
	}
}

// accepted logs a successful login.
func (l *log) accepted(c *ssh.ServerConn, u *users.Login) {
	l.report.Login(meter.SFTP, ports.Peer(c.RemoteAddr()), users.Event{Outcome: users.Accepted, User: u.User.Name, Method: u.Method, Key: u.Key})
	attrs := append(make([]slog.Attr, 0, 12),
		slog.String("result", "accepted"),
		slog.String("user", u.User.Name),
		slog.String("peer", ports.Peer(c.RemoteAddr())),
		slog.String("method", u.Method))
	if u.Key != "" {
		attrs = append(attrs, slog.String("key", u.Key))
	}
	if u.Authority != "" {
		attrs = append(attrs, slog.String("authority", u.Authority), slog.String("key id", u.KeyID), slog.Uint64("serial", u.Serial))
	}
	l.Say(slog.LevelInfo, "sftp login", append(attrs,
		slog.String("access", u.Access.String()),
		slog.String("root", cmp.Or(u.User.Root, ".")),
		slog.String("client", string(c.ClientVersion())))...)
}

// failed logs a login that failed although the credentials were correct.
func (l *log) failed(c *ssh.ServerConn, user string, err error) {
	l.mu.Lock()
	if t := l.tries[connKey(c.RemoteAddr(), c.LocalAddr())]; t != nil {
		t.logged = true
	}
	l.mu.Unlock()
	l.Say(slog.LevelError, "sftp login", slog.String("result", "failed"), slog.String("user", user),
		slog.String("peer", ports.Peer(c.RemoteAddr())), slog.String("error", err.Error()))
	l.report.Login(meter.SFTP, ports.Peer(c.RemoteAddr()), users.Event{Outcome: users.Refused, User: user, Reason: err.Error()})
}

// maxShown is how many bytes of a name are logged if a stranger may have sent the name.
const maxShown = 64

// disconnected logs that a connection has ended: as a logout or, if nobody logged in and that has
// not been logged yet, with the reason.
func (l *log) disconnected(c *sftp.Conn) {
	l.mu.Lock()
	key := connKey(c.Peer, c.Local)
	t := l.tries[key]
	delete(l.tries, key)
	l.mu.Unlock()
	if c.Account != nil {
		l.left(c)
		return
	}
	if t == nil {
		t = &tries{}
	}
	attrs := []slog.Attr{slog.String("result", "refused")}
	if name := c.User; name != "" {
		attrs = append(attrs, slog.String("user", name[:min(len(name), maxShown)]))
	}
	attrs = append(attrs, slog.String("peer", ports.Peer(c.Peer)))
	switch {
	case t.keys > 0:
		attrs = append(attrs, slog.String("method", "publickey"), slog.String("key", t.key), slog.String("error", t.reason))
		if t.keys > 1 {
			attrs = append(attrs, slog.Int("keys tried", t.keys))
		}
		l.sayFew(slog.LevelWarn, failedLogins, "", c.Peer, "sftp login", attrs...)
		l.report.Login(meter.SFTP, ports.Peer(c.Peer), users.Event{Outcome: users.Refused, User: c.User, Method: "publickey", Key: t.key, Reason: t.reason})
	case t.logged:
	default: // nothing is logged for a client that did not try to log in, such as a port scanner
		attrs[0] = slog.String("result", "none")
		l.sayFew(slog.LevelInfo, failedLogins, "", c.Peer, "sftp login", append(attrs, slog.String("error", shortError(c.Err)))...)
	}
}

// shortError returns the reason why a connection ended. It leaves out the list of all login
// attempts that x/crypto adds.
func shortError(err error) string {
	if _, ok := errors.AsType[*ssh.ServerAuthError](err); ok || err == nil {
		return "the client left"
	}
	if errors.Is(err, io.EOF) {
		return "the client left before it logged in"
	}
	text := err.Error()
	return text[:min(len(text), 4*maxShown)]
}

func (l *log) left(c *sftp.Conn) {
	l.report.ConnEnded(c)
	level, result := slog.LevelInfo, "done"
	attrs := append(make([]slog.Attr, 0, 8),
		slog.String("user", c.User),
		slog.String("peer", ports.Peer(c.Peer)),
		slog.Duration("duration", c.Duration.Round(time.Millisecond)),
		slog.Int64("sent", c.Sent()),
		slog.Int64("received", c.Received()))
	if c.Err != nil {
		result = "ended"
		attrs = append(attrs, slog.String("error", shortError(c.Err)))
		if strings.HasPrefix(c.Err.Error(), "panic: ") {
			level, result = slog.LevelError, "failed"
		}
	}
	l.Say(level, "sftp logout", append([]slog.Attr{slog.String("result", result)}, attrs...)...)
}

// started counts a transfer that begins.
func (l *log) started(t *sftp.Transfer) {
	peer, _ := netip.ParseAddrPort(t.Conn.Peer.String())
	m := l.counts.Begin(meter.Info{Protocol: meter.SFTP, Write: t.Write, Peer: peer, Name: t.Name, User: t.Conn.User, Began: t.Began})
	m.Follow(func() int64 { return t.Sent() + t.Received() })
	t.Value = m
}

// ended logs a transfer.
func (l *log) ended(t *sftp.Transfer) {
	level, result := slog.LevelInfo, meter.Done
	switch {
	case t.Err == nil:
	case errors.Is(t.Err, sftp.ErrAbandoned):
		result = meter.PeerEnded
		if t.Write {
			level = slog.LevelWarn
		}
	default:
		level, result = slog.LevelWarn, meter.Failed
	}
	bytes := t.Sent() + t.Received()
	if m, ok := t.Value.(*meter.Transfer); ok {
		m.End(meter.End{Result: result, Bytes: bytes, Duration: t.Duration, File: t.Name, Path: t.Path, Err: t.Err, Detail: t, Routine: level < slog.LevelWarn})
	}
	fruitless, name, path := t.Err != nil && bytes == 0, t.Name, t.Path
	if fruitless {
		name, path = linequeue.ShortName(name), linequeue.ShortName(path)
	}
	attrs := append(make([]slog.Attr, 0, 12),
		slog.String("result", string(result)),
		slog.String("direction", direction(t)),
		slog.String("file", name),
		slog.String("user", t.Conn.User),
		slog.String("peer", ports.Peer(t.Conn.Peer)),
		slog.Int64("bytes", bytes),
		slog.Duration("duration", t.Duration.Round(time.Microsecond)),
		slog.Int64("rate", console.PerSecond(bytes, t.Duration)))
	if path != "" {
		attrs = append(attrs, slog.String("path", path))
	}
	if t.Err != nil {
		text := linequeue.ShortError(t.Err.Error())
		if t.Hidden && (result == meter.PeerEnded || errors.Is(t.Err, sftp.ErrEnded)) {
			text += "; the part that arrived is discarded"
		}
		attrs = append(attrs, slog.String("error", text))
	}
	if fruitless {
		l.sayFew(level, failedRequests, t.Conn.User, t.Conn.Peer, "sftp", attrs...)
		return
	}
	l.Say(level, "sftp", attrs...)
}

// direction returns a word for the log that says whether a client read or wrote a file. If the file
// was opened for both, the word says what the client then did.
func direction(t *sftp.Transfer) string {
	switch {
	case t.Read && t.Write && t.Sent() > 0 && t.Received() > 0:
		return "both"
	case t.Write && (t.Received() > 0 || !t.Read):
		return "write"
	}
	return "read"
}

// operation logs a change of files or directories, or a failed or refused attempt to make one.
func (l *log) operation(o *sftp.Operation) {
	level, result := slog.LevelInfo, meter.Done
	switch {
	case o.Err == nil:
	case errors.Is(o.Err, fs.ErrNotExist): // not a warning: clients often ask for missing files
		result = meter.Failed
	case errors.Is(o.Err, fs.ErrPermission):
		level, result = slog.LevelWarn, meter.Refused
	default:
		level, result = slog.LevelWarn, meter.Failed
	}
	name, to := o.Name, o.To
	if o.Err != nil {
		name, to = linequeue.ShortName(name), linequeue.ShortName(to)
	}
	attrs := append(make([]slog.Attr, 0, 8),
		slog.String("result", string(result)),
		slog.String("operation", o.What),
		slog.String("file", name))
	if to != "" {
		attrs = append(attrs, slog.String("to", to))
	}
	attrs = append(attrs, slog.String("user", o.Conn.User), slog.String("peer", ports.Peer(o.Conn.Peer)))
	l.report.Changed(o, ports.Peer(o.Conn.Peer), result)
	if o.Err != nil {
		attrs = append(attrs, slog.String("error", linequeue.ShortError(o.Err.Error())))
		l.sayFew(level, failedRequests, o.Conn.User, o.Conn.Peer, "sftp", attrs...)
		return
	}
	l.Say(level, "sftp", attrs...)
}

// refused logs a request for something that the server does not offer, such as a shell.
func (l *log) refused(r *sftp.Refusal) {
	attrs := append(make([]slog.Attr, 0, 8),
		slog.String("result", string(meter.Refused)),
		slog.String("operation", r.What))
	if r.Detail != "" {
		key := "to"
		switch r.What {
		case "exec":
			key = "command"
		case "subsystem":
			key = "subsystem"
		case "session":
			key = "error"
		}
		attrs = append(attrs, slog.String(key, r.Detail))
	}
	attrs = append(attrs, slog.String("user", r.Conn.User), slog.String("peer", ports.Peer(r.Conn.Peer)))
	if r.Last {
		attrs = append(attrs, slog.String("note", "further requests of this connection are not logged"))
	}
	l.sayFew(slog.LevelWarn, failedRequests, r.Conn.User, r.Conn.Peer, "sftp", attrs...)
	l.report.Refused(r, ports.Peer(r.Conn.Peer))
}
