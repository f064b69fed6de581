package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/store"
)

const (
	// While an upstream is unreachable, each call keeps trying to reach it for as long as a call
	// may take. If a server restarts, it is soon reachable again, and a waiting client need not
	// start again. After an upstream has been unreachable for the time patience, only one call
	// every probeEvery tries to reach it, and all others fail at once.
	patience   = 30 * time.Second
	probeEvery = 5 * time.Second

	// firstPause is the average pause between two tries to connect. It doubles up to mostPause.
	firstPause = 200 * time.Millisecond
	mostPause  = 5 * time.Second

	// logEvery is the minimum time between two log lines about an unreachable upstream. It also
	// applies to lines about failed requests, and to lines about repeated requests.
	logEvery = time.Minute

	// maxCalls is how many calls may be under way at one upstream at the same time. Further calls
	// wait until one of these calls ends.
	maxCalls = 256

	// leastTime is how long a file may take to deliver leastBytes of its content.
	leastTime = 10 * time.Second
)

var (
	errSlow   = errors.New("no answer in time")
	errClosed = fmt.Errorf("the source was closed: %w", fs.ErrClosed)
)

// A link gives access to an upstream. It holds the connection, limits the number of calls, and
// records whether the upstream is reachable.
type link struct {
	text    string
	connect func(context.Context) (store.Tree, func(), error)
	renews  func(error) bool // reports whether a new connection may help after the given error
	reopens bool             // open files are opened again on a new connection
	log     func(slog.Level, string, ...slog.Attr)
	wait    time.Duration // how long a call may take, including all retries
	least   time.Duration // the constant leastTime, except in tests
	places  chan struct{}
	life    context.Context
	end     context.CancelCauseFunc

	counts counts

	mu      sync.Mutex
	conn    *conn     // nil while no connection is open; guarded by mu
	dialing *dialing  // the attempt to connect that is under way, or nil; guarded by mu
	tries   int       // number of failed tries to connect since the last success; guarded by mu
	away    time.Time // since when the upstream has been unreachable; zero if it is reachable; guarded by mu
	// probe is when the next call may try to reach the upstream, if it has been unreachable for at
	// least patience; guarded by mu.
	probe   time.Time
	err     error     // why the upstream is unreachable; guarded by mu
	logged  time.Time // when it was last logged that the upstream is unreachable; guarded by mu
	faulty  time.Time // when a failed request was last logged; guarded by mu
	warned  time.Time // when a repeated request was last logged; guarded by mu
	reached bool      // the upstream has answered at least once; guarded by mu
}

// Stats holds the counters of a source since it was opened, and whether it is reachable.
type Stats struct {
	Calls    uint64 // finished calls, successful or not: to open, list, describe or change files and directories
	Failures uint64 // calls and reads that failed because of the server or the path to it
	Again    uint64 // HTTP and S3 requests that were repeated because the server was busy or a connection was lost
	Connects uint64 // SFTP connections that were made
	Read     uint64 // bytes that were read from files
	Away     bool   // the upstream is unreachable: the latest call failed because of the server or the path to it
}

// counts holds the counters of a link: see [Stats].
type counts struct {
	calls, failures, repeats, connects, read atomic.Uint64
}

func (c *counts) stats() Stats {
	return Stats{Calls: c.calls.Load(), Failures: c.failures.Load(), Again: c.repeats.Load(), Connects: c.connects.Load(), Read: c.read.Load()}
}

// A conn is a connection to the upstream.
type conn struct {
	tree  store.Tree
	close func()
}

// A dialing is an attempt to connect. Several calls may wait for it.
type dialing struct {
	done chan struct{}
	conn *conn
	err  error
}

func newLink(text string, wait time.Duration, say func(slog.Level, string, ...slog.Attr)) *link {
	l := &link{text: text, wait: wait, least: leastTime, log: say, places: make(chan struct{}, maxCalls)}
	l.life, l.end = context.WithCancelCause(context.Background())
	return l
}

func (l *link) say(level slog.Level, text string, attrs ...slog.Attr) {
	l.log(level, text, append([]slog.Attr{slog.String("source", l.text)}, attrs...)...)
}

func (l *link) close() {
	l.end(errClosed)
	l.mu.Lock()
	c := l.conn
	l.conn = nil
	l.mu.Unlock()
	if c != nil {
		c.close()
	}
}

func (l *link) stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	st := l.counts.stats()
	st.Away = !l.away.IsZero()
	return st
}

// A span lasts from the beginning of a call until the file that the call has opened is closed. It
// holds what the call uses in that time.
type span struct {
	// ctx is cancelled when the caller's context is cancelled, when the link is closed, when end is
	// called, or when the call takes too long.
	ctx    context.Context
	end    func()
	conn   *conn
	tree   store.Tree // the tree of conn
	opened io.Closer  // the file that the call has opened; nil if it has opened none
}

// call runs `do` on a connection to the upstream, within the time limit of a call. If `do` fails
// because the server cannot be reached, call runs it again within that time, unless changes is true
// and a request was sent. If `do` succeeds, the file that it has opened stays open until the caller
// calls end on the returned span. If `do` fails for good, call ends the span.
func (l *link) call(ctx context.Context, changes bool, do func(*span) error) (*span, error) {
	defer store.BeginWait(ctx)()
	if err := l.admit(); err != nil {
		return nil, err
	}
	s := new(span)
	inner, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.life, func() { cancel(context.Cause(l.life)) })
	s.ctx, s.end = inner, func() { stop(); cancel(fs.ErrClosed) }
	timer := time.AfterFunc(l.wait, func() { cancel(errSlow) })
	err := l.enter(s, changes, do)
	if !timer.Stop() {
		<-inner.Done()
	}
	if err == nil && inner.Err() != nil {
		err = context.Cause(inner)
		if s.opened != nil {
			_ = s.opened.Close()
		}
	}
	l.counts.calls.Add(1)
	if err != nil {
		s.end()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return s, l.note(s.conn, err)
}

// enter waits until one more call may run, and until there is a connection. Then it makes the call,
// and repeats it while the upstream is unreachable.
func (l *link) enter(s *span, changes bool, do func(*span) error) (err error) {
	select {
	case l.places <- struct{}{}:
		defer func() { <-l.places }()
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
	for pause := firstPause; ; pause = min(2*pause, mostPause, l.wait/3) {
		last := err
		if s.conn, err = l.connection(s.ctx); err == nil {
			s.tree = s.conn.tree
			err = do(s)
		}
		if s.ctx.Err() != nil && last != nil {
			return last // the error of the previous try says more than a timeout
		}
		if cause := context.Cause(s.ctx); cause != nil && !errors.Is(err, cause) {
			return cause
		}
		if err == nil || s.conn == nil || !remote.IsAway(err) {
			return err
		}
		l.early(err)
		l.renew(s.conn, err)
		if changes && !isUnsent(err) || remote.IsRefusal(err) {
			return err
		}
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-s.ctx.Done():
			return err
		}
	}
}

// admit returns an error if the upstream has been unreachable for so long that the call must fail
// at once.
func (l *link) admit() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.away.IsZero() || now.Sub(l.away) < patience {
		return nil
	}
	if now.Before(l.probe) {
		return unavailable{l.err}
	}
	l.probe = now.Add(probeEvery)
	return nil
}

// connection returns the current connection, or waits until a new connection is made. It retries
// until ctx ends.
func (l *link) connection(ctx context.Context) (*conn, error) {
	var last error
	for {
		l.mu.Lock()
		if c := l.conn; c != nil {
			l.mu.Unlock()
			return c, nil
		}
		if l.dialing == nil {
			l.dialing = &dialing{done: make(chan struct{})}
			go l.dial(l.dialing, l.tries)
		}
		d := l.dialing
		l.mu.Unlock()
		select {
		case <-d.done:
		case <-ctx.Done():
			if last != nil {
				return nil, last
			}
			return nil, context.Cause(ctx)
		}
		if d.err == nil {
			return d.conn, nil
		}
		if last = d.err; remote.IsRefusal(last) || errors.Is(last, fs.ErrNotExist) {
			return nil, last // a retry would be useless, because it would fail in the same way
		}
	}
}

// dial connects on behalf of all calls that wait for d. Before that it pauses, the longer the more
// tries have failed.
func (l *link) dial(d *dialing, tries int) {
	defer close(d.done)
	ctx, cancel := context.WithTimeoutCause(l.life, l.wait+mostPause, errSlow)
	defer cancel()
	if tries > 0 {
		// The pause is at most a third of a call's time, so that a try begins during each call.
		pause := min(firstPause<<min(tries-1, 10), mostPause, l.wait/3)
		select {
		case <-time.After(pause/2 + rand.N(pause)):
		case <-ctx.Done():
		}
	}
	d.conn = new(conn)
	if d.conn.tree, d.conn.close, d.err = l.connect(ctx); d.err != nil && ctx.Err() == nil {
		l.early(d.err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dialing = nil
	if d.err != nil {
		l.tries++
		if ctx.Err() != nil {
			d.err = context.Cause(ctx)
		}
		return
	}
	if l.life.Err() != nil {
		d.err = errClosed
		go d.conn.close()
		return
	}
	l.tries = 0
	l.conn = d.conn
	l.counts.connects.Add(1)
}

// renew closes the connection c after err, if a new connection may help. The next call then makes
// one.
func (l *link) renew(c *conn, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c == l.conn && l.renews(err) {
		l.conn = nil
		l.tries++ // wait before the next try to connect, because the new connection may be lost in the same way
		go c.close()
	}
}

// early logs that the upstream is unreachable, if it has never answered, although the call is still
// retrying. That is for administrators who have just started the server and look at the log.
func (l *link) early(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.reached {
		l.lost(err)
	}
}

// lost records that the upstream is unreachable, and logs that unless it was logged recently. The
// caller holds mu.
func (l *link) lost(err error) {
	now := time.Now()
	if l.away.IsZero() {
		l.away, l.probe = now, now
	}
	l.err = err
	if now.Sub(l.logged) >= logEvery {
		l.logged = time.Now()
		l.say(slog.LevelWarn, "source: cannot be reached; haul tries again", slog.String("error", err.Error()), slog.Uint64("failures", l.counts.failures.Load()))
	}
}

// note records the result of a call or a read, and returns its error for the caller. c is the
// connection that was used; it may be nil.
func (l *link) note(c *conn, err error) error {
	if errors.Is(err, errClosed) || errors.Is(err, context.Canceled) {
		return err
	}
	if isFault(err) {
		l.counts.failures.Add(1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if err == nil || c != nil && !isAway(err) {
		if !l.away.IsZero() && l.logged.After(l.away) {
			l.say(slog.LevelInfo, "source: reached again", slog.Duration("away", now.Sub(l.away).Round(time.Millisecond)))
		}
		l.away, l.err, l.reached = time.Time{}, nil, true
		if isFault(err) && now.Sub(l.faulty) >= logEvery {
			l.faulty = now
			l.say(slog.LevelWarn, "source: a request has failed", slog.String("error", err.Error()), slog.Uint64("failures", l.counts.failures.Load()))
		}
		return err
	}
	l.lost(err)
	return unavailable{err}
}

// again counts and logs that a request was repeated.
func (l *link) again(why error) {
	n := l.counts.repeats.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.warned) >= logEvery {
		l.warned = now
		l.say(slog.LevelWarn, "source: a request is sent again", slog.String("error", why.Error()), slog.Uint64("repeats", n))
	}
}

// isAway reports whether an error means that the server is unreachable, rather than that it cannot
// serve one file.
func isAway(err error) bool {
	return errors.Is(err, errSlow) || errors.Is(err, store.ErrUnavailable) || remote.IsAway(err)
}

// isUnsent reports whether the error is a failed attempt to connect, so that no request was sent.
func isUnsent(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// hasAnswered reports whether the upstream has ever answered.
func (l *link) hasAnswered() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reached
}

// answers are the errors by which a server refuses a request although the server works.
var answers = []error{
	fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid, store.ErrNotRegular, store.ErrUnsettled, store.ErrNoSpace, store.ErrBusy, errors.ErrUnsupported, io.EOF,
}

// isFault reports whether an error was caused by a fault of the server, or of the path to it.
func isFault(err error) bool {
	return isAway(err) || err != nil && !slices.ContainsFunc(answers, func(e error) bool { return errors.Is(err, e) })
}

// An unavailable is an error that says why an upstream cannot be reached.
type unavailable struct{ error }

// Unwrap returns only store.ErrUnavailable, and not the reason. The reason could look like an error
// of the file, for instance as if the file were missing.
func (unavailable) Unwrap() error { return store.ErrUnavailable }
