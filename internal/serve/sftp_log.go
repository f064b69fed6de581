package serve

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

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/penalty"
	"github.com/haul-project/haul/meter"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/users"
)

// An sftpLog tells the log, and the metrics, what a server of SFTP does.
type sftpLog struct {
	*lineQueue
	counts *meter.Registry // nil counts nothing
	away   turnedAway
	locked tally // networks that are refused for a time

	mu    sync.Mutex
	tries map[string]*tries // mu: of connections that are not logged in, by both ends
}

// tries are what one connection has tried to log in by.
type tries struct {
	told   bool   // a line says already that it failed
	keys   int    // that were offered, and refused
	key    string // the last of them
	reason string // why that was
}

func newSFTPLog(log *slog.Logger, counts *meter.Registry) *sftpLog {
	q := newLineQueue(log)
	return &sftpLog{
		lineQueue: q, counts: counts, away: newTurnedAway(q, counts, meter.SFTP),
		locked: tally{log: q, msg: "sftp: locked out"}, tries: map[string]*tries{},
	}
}

// listen has a server tell its log what happens.
func (l *sftpLog) listen(s *sftp.Server) {
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
		l.away.add(from, cause, more...)
	}
}

// lockedOut logs that a network is refused for a time.
func (l *sftpLog) lockedOut(from net.Addr, o sftp.Lockout) {
	cause, refused := "connections without a login", "connections"
	if o.Passwords {
		cause, refused = "wrong passwords", "passwords (keys still work)"
	}
	l.locked.add(slog.LevelWarn, cause, from.String(), append(refusedUntil(o.Network, o.For), slog.String("refused", refused))...)
}

// refusedUntil says which network is refused, and when that ends.
func refusedUntil(network netip.Prefix, left time.Duration) []slog.Attr {
	return []slog.Attr{slog.String("network", network.String()), slog.String("until", time.Now().Add(left).Format(time.RFC3339))}
}

// connKey tells connections apart.
func connKey(peer, local net.Addr) string { return peer.String() + " " + local.String() }

// begin returns what logs the attempts to log in by a connection.
func (l *sftpLog) begin(c net.Conn) func(users.Event) {
	t := &tries{}
	l.mu.Lock()
	l.tries[connKey(c.RemoteAddr(), c.LocalAddr())] = t
	l.mu.Unlock()
	return func(e users.Event) { l.attempt(t, c.RemoteAddr(), e) }
}

// attempt logs a password that was refused. Keys are logged together at the
// end, as clients offer all that they have, and the last may fit.
func (l *sftpLog) attempt(t *tries, peer net.Addr, e users.Event) {
	switch {
	case e.Outcome == users.Accepted, e.Outcome == users.Partial: // the login tells
	case e.Key != "" && e.Method == "publickey":
		l.mu.Lock()
		t.keys, t.key, t.reason = t.keys+1, e.Key, e.Reason
		l.mu.Unlock()
	default:
		l.mu.Lock()
		t.told = true
		l.mu.Unlock()
		l.say(slog.LevelWarn, "sftp login", slog.String("result", "refused"), slog.String("user", e.User),
			slog.String("peer", peer.String()), slog.String("method", e.Method), slog.String("error", e.Reason))
	}
}

// accepted tells of a login.
func (l *sftpLog) accepted(c *ssh.ServerConn, u *users.Login) {
	attrs := append(make([]slog.Attr, 0, 12),
		slog.String("result", "accepted"),
		slog.String("user", u.User.Name),
		slog.String("peer", c.RemoteAddr().String()),
		slog.String("method", u.Method))
	if u.Key != "" {
		attrs = append(attrs, slog.String("key", u.Key))
	}
	if u.Authority != "" {
		attrs = append(attrs, slog.String("authority", u.Authority), slog.String("key id", u.KeyID), slog.Uint64("serial", u.Serial))
	}
	l.say(slog.LevelInfo, "sftp login", append(attrs,
		slog.String("access", u.Access.String()),
		slog.String("root", cmp.Or(u.User.Root, ".")),
		slog.String("client", string(c.ClientVersion())))...)
}

// failed tells of a login that was in order, and came to nothing for another
// reason.
func (l *sftpLog) failed(c *ssh.ServerConn, user string, err error) {
	l.mu.Lock()
	if t := l.tries[connKey(c.RemoteAddr(), c.LocalAddr())]; t != nil {
		t.told = true
	}
	l.mu.Unlock()
	l.say(slog.LevelError, "sftp login", slog.String("result", "failed"), slog.String("user", user),
		slog.String("peer", c.RemoteAddr().String()), slog.String("error", err.Error()))
}

// maxShown is how much of a name that a stranger gives is shown, in bytes.
const maxShown = 64

// disconnected logs the end of a connection: what was done if a user was logged in, or
// why nobody was, unless that has been logged.
func (l *sftpLog) disconnected(c *sftp.Conn) {
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
	attrs = append(attrs, slog.String("peer", c.Peer.String()))
	switch {
	case t.keys > 0:
		attrs = append(attrs, slog.String("method", "publickey"), slog.String("key", t.key), slog.String("error", t.reason))
		if t.keys > 1 {
			attrs = append(attrs, slog.Int("keys tried", t.keys))
		}
		l.say(slog.LevelWarn, "sftp login", attrs...)
	case t.told:
	default: // a port scanner, for one
		attrs[0] = slog.String("result", "none")
		l.say(slog.LevelInfo, "sftp login", append(attrs, slog.String("error", shortError(c.Err)))...)
	}
}

// shortError returns what a connection ended for. What x/crypto says of attempts
// to log in is a list of them all.
func shortError(err error) string {
	if _, ok := errors.AsType[*ssh.ServerAuthError](err); ok || err == nil {
		return "the client left"
	}
	if errors.Is(err, io.EOF) {
		return "the client left before it had logged in"
	}
	text := err.Error()
	return text[:min(len(text), 4*maxShown)]
}

func (l *sftpLog) left(c *sftp.Conn) {
	level, result := slog.LevelInfo, "done"
	attrs := append(make([]slog.Attr, 0, 8),
		slog.String("user", c.User),
		slog.String("peer", c.Peer.String()),
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
	l.say(level, "sftp logout", append([]slog.Attr{slog.String("result", result)}, attrs...)...)
}

// started counts a file that was opened.
func (l *sftpLog) started(t *sftp.Transfer) {
	peer, _ := netip.ParseAddrPort(t.Conn.Peer.String())
	m := l.counts.Begin(meter.Info{Protocol: meter.SFTP, Write: t.Write, Peer: peer, Name: t.Name, Began: t.Began})
	m.Follow(func() int64 { return t.Sent() + t.Received() })
	t.Value = m
}

// ended tells of a file that is closed.
func (l *sftpLog) ended(t *sftp.Transfer) {
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
		m.End(meter.End{Result: result, Bytes: bytes, Duration: t.Duration})
	}
	attrs := append(make([]slog.Attr, 0, 12),
		slog.String("result", string(result)),
		slog.String("direction", direction(t)),
		slog.String("file", t.Name),
		slog.String("user", t.Conn.User),
		slog.String("peer", t.Conn.Peer.String()),
		slog.Int64("bytes", bytes),
		slog.Duration("duration", t.Duration.Round(time.Microsecond)),
		slog.Int64("rate", console.PerSecond(bytes, t.Duration)))
	if t.Path != "" {
		attrs = append(attrs, slog.String("path", t.Path))
	}
	if t.Err != nil {
		text := t.Err.Error()
		if t.Hidden && (result == meter.PeerEnded || errors.Is(t.Err, sftp.ErrEnded)) {
			text += "; what had come of it is discarded"
		}
		attrs = append(attrs, slog.String("error", text))
	}
	l.say(level, "sftp", attrs...)
}

// direction says what a file was used for, from the client's side; of one opened
// for both what was done.
func direction(t *sftp.Transfer) string {
	switch {
	case t.Read && t.Write && t.Sent() > 0 && t.Received() > 0:
		return "both"
	case t.Write && (t.Received() > 0 || !t.Read):
		return "write"
	}
	return "read"
}

// operation tells of a change, or of what was refused.
func (l *sftpLog) operation(o *sftp.Operation) {
	level, result := slog.LevelInfo, meter.Done
	switch {
	case o.Err == nil:
	case errors.Is(o.Err, fs.ErrNotExist): // clients ask for what is not there every day
		result = meter.Failed
	case errors.Is(o.Err, fs.ErrPermission):
		level, result = slog.LevelWarn, meter.Refused
	default:
		level, result = slog.LevelWarn, meter.Failed
	}
	attrs := append(make([]slog.Attr, 0, 8),
		slog.String("result", string(result)),
		slog.String("operation", o.What),
		slog.String("file", o.Name))
	if o.To != "" {
		attrs = append(attrs, slog.String("to", o.To))
	}
	attrs = append(attrs, slog.String("user", o.Conn.User), slog.String("peer", o.Conn.Peer.String()))
	if o.Err != nil {
		attrs = append(attrs, slog.String("error", o.Err.Error()))
	}
	l.say(level, "sftp", attrs...)
}

// refused tells of what somebody wanted of SSH that there is not.
func (l *sftpLog) refused(r *sftp.Refusal) {
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
	attrs = append(attrs, slog.String("user", r.Conn.User), slog.String("peer", r.Conn.Peer.String()))
	if r.Last {
		attrs = append(attrs, slog.String("note", "more of this connection is not told"))
	}
	l.say(slog.LevelWarn, "sftp", attrs...)
}

// notAllowed is the cause for what --allow and --deny keep out.
const notAllowed = "--allow and --deny"

// reasonOf says by which metric a connection counts that was turned away.
var reasonOf = map[string]meter.Reason{
	notAllowed:                          meter.Denied,
	string(penalty.Penalized):           meter.Rate,
	string(penalty.TooManyConns):        meter.Busy,
	string(penalty.TooManyHandshakes):   meter.Busy,
	string(penalty.TooManyOfSource):     meter.Address,
	string(penalty.TooManyHandshakesOf): meter.Address,
}

// turnedAway tells of connections that were turned away, and counts them.
type turnedAway struct {
	tally
	registry *meter.Registry // nil counts nothing
	protocol meter.Protocol
}

func newTurnedAway(log *lineQueue, counts *meter.Registry, protocol meter.Protocol) turnedAway {
	return turnedAway{tally: tally{log: log, msg: string(protocol) + ": connections turned away"}, registry: counts, protocol: protocol}
}

func (t *turnedAway) add(from net.Addr, cause string, more ...slog.Attr) {
	t.registry.Refuse(t.protocol, reasonOf[cause], 1)
	t.tally.add(slog.LevelWarn, cause, from.String(), more...)
}
