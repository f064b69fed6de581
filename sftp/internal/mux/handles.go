package mux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// maxReopen is how many times in a row a file is reopened after it was lost in all sessions, if no
// data moves in between.
const maxReopen = 3

// A fileUser is a transfer that moves data of a file. Its methods run under mu.
type fileUser interface {
	// fail ends the transfer, because the file cannot be open in any session.
	fail(err error)

	// ask queues the transfer for room in the window again, because the file was opened in a
	// further session.
	ask(now time.Time)

	// grantRoom lets all queued transfers use the available room in the window.
	grantRoom(now time.Time)
}

// A handleSet holds the handles of one file: one for each session in which the file is open,
// because a handle is valid only in its session.
type handleSet struct {
	calls  *calls
	name   string         // the file's name as the caller spells it
	Path   string         // the file's path as it is sent to the server
	access wire.OpenFlags // OpenRead, OpenWrite or both

	// Own is set if no other client can know the file's name. Then an OPEN in another session must
	// return a handle of the same file, and the files need not be compared.
	Own bool

	// single is set if the file is used only in the session in which it was opened, because data
	// that is appended must arrive in order.
	single bool

	// Guarded by mu:
	Known   wire.Attrs // the attributes of the file when it was opened
	handles []Handle
	ending  Handle // the handle for which a Closing has sent a CLOSE
	guesses []*guess
	opening []*Session // an element for each OPEN under way: its session, or nil for any session
	users   []fileUser
	// tries counts how many times in a row the file lost its last session: a session ended in which
	// the file was open or being opened, and no other such session was left. maxReopen bounds
	// tries.
	tries   int
	narrow  bool          // the server has refused to open the file in a further session
	closed  bool          // the file was closed, so handles from OPENs under way are closed too
	err     error         // why the file cannot be used any more; nil while it can
	changes chan struct{} // closed when `handles` or `err` changes; nil if nobody waits for that
	reach   int64         // no byte at or after this offset was sent
	sure    int64         // all bytes before this offset are confirmed
	broke   int           // number of sessions with this file that violated the protocol
	brokeIn *Session      // the session that was last counted in `broke`
}

// A guess is a handle that the client uses in a session before the server has confirmed it.
type guess struct {
	session *Session
	handle  string
	ids     []uint32 // IDs of the READs that were sent with the guessed handle

	// Set as answers arrive:
	open     bool // the OPEN returned the guessed handle
	answered bool // the FSTAT of the guessed handle was answered: `attrs` holds the answer, or `why` the error
	attrs    wire.Attrs
	why      error
}

// guessIn returns the pending guess in a session, or nil.
func (f *handleSet) guessIn(s *Session) *guess {
	for _, g := range f.guesses {
		if g.session == s {
			return g
		}
	}
	return nil
}

// isOpenIn reports whether the file is open in a session.
func (f *handleSet) isOpenIn(s *Session) bool {
	return slices.ContainsFunc(f.handles, func(h Handle) bool { return h.Session == s })
}

// widens reports whether the file may be opened in further sessions.
func (f *handleSet) widens() bool { return !f.narrow && !f.single }

// idlest returns the handle in the least busy session on the least busy connection. Connections are
// compared first, because the sessions of a connection share one path. Sessions with room for n
// bytes are preferred to those without.
func (f *handleSet) idlest(n int) (best Handle, ok bool) {
	type load struct{ full, conn, session int }
	var least load
	pool := f.calls.pool
	for _, h := range f.handles {
		if h.Session.err != nil {
			continue
		}
		l := load{conn: pool.outstandingOn(h.Session.conn), session: pool.link.Outstanding(h.Session.n)}
		if l.session+n > pipeline.DefaultSessionBytes {
			l.full = 1
		}
		if !ok || cmp.Or(cmp.Compare(l.full, least.full), cmp.Compare(l.conn, least.conn), cmp.Compare(l.session, least.session)) < 0 {
			best, least, ok = h, l, true
		}
	}
	return best, ok
}

// spread opens the file in further sessions until it is open in at least `want` sessions in all,
// and in at least `even` sessions of each connection. It stops when no more sessions are open.
func (f *handleSet) spread(want, even int) {
	f.handles = slices.DeleteFunc(f.handles, func(h Handle) bool { return h.Session.gone })
	have := len(f.handles) + len(f.opening)
	switch {
	case f.err != nil || f.closed:
		return
	case have == 0:
		f.reopen()
		return
	case f.narrow || f.single:
		return
	}
	for ; ; have++ {
		s := f.fresh()
		if s == nil || have >= want && f.countOn(s.conn) >= even {
			return
		}
		f.openIn(s)
	}
}

// fresh returns a session in which the file is not open, or nil. It chooses a session on the
// connection with the fewest sessions in which the file is open.
func (f *handleSet) fresh() (best *Session) {
	least := math.MaxInt
	for _, s := range f.calls.pool.sessions {
		if s == nil || s.err != nil || !s.ready || f.isOpenIn(s) || slices.Contains(f.opening, s) {
			continue
		}
		if n := f.countOn(s.conn); n < least {
			best, least = s, n
		}
	}
	return best
}

// countOn returns the number of sessions of a connection in which the file is open or being opened.
func (f *handleSet) countOn(conn *connection) int {
	n := 0
	for _, h := range f.handles {
		if h.Session.conn == conn {
			n++
		}
	}
	for _, s := range f.opening {
		if s != nil && s.conn == conn {
			n++
		}
	}
	return n
}

// fail makes the file unusable with err, unless the file is open in some session.
func (f *handleSet) fail(err error) {
	if f.err == nil && len(f.handles) == 0 {
		f.endWith(Plain(err))
	}
}

// endWith makes the file unusable with err, even if it is open in some session.
func (f *handleSet) endWith(err error) {
	f.err = err
	f.notifyWaiting()
	for _, u := range f.users {
		u.fail(err)
	}
}

// notifyWaiting wakes the goroutines that wait for changes.
func (f *handleSet) notifyWaiting() {
	if f.changes != nil {
		close(f.changes)
		f.changes = nil
	}
}

// awaitChange calls the function `begin`, and then waits until the fields handles or err change. It
// unlocks mu while it waits.
func (f *handleSet) awaitChange(ctx context.Context, begin func()) (err error) {
	if f.changes == nil {
		f.changes = make(chan struct{})
	}
	changes := f.changes
	begin()
	f.calls.mu.Unlock()
	defer f.calls.mu.Lock()
	select {
	case <-changes:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return err
}

// await waits until the file is open in some session, and returns the handle in that session.
func (f *handleSet) await(ctx context.Context) (Handle, error) {
	for {
		if h, ok := f.idlest(0); ok {
			return h, nil
		}
		if f.err != nil {
			return Handle{}, f.err
		}
		if f.calls.err != nil {
			return Handle{}, f.calls.err
		}
		err := f.awaitChange(ctx, func() {
			// Drop the handles of sessions that have failed. Such a session takes some time to end,
			// and then only transfers are notified, so this wait could last for ever.
			f.handles = slices.DeleteFunc(f.handles, func(h Handle) bool { return h.Session.err != nil })
			f.spread(1, 0)
		})
		if err != nil {
			return Handle{}, err
		}
	}
}

// awaitIn waits until the file is open in the session s, and returns the handle in that session.
func (f *handleSet) awaitIn(ctx context.Context, s *Session) (Handle, error) {
	for asked := false; ; asked = true {
		if i := slices.IndexFunc(f.handles, func(h Handle) bool { return h.Session == s }); i >= 0 && s.err == nil {
			return f.handles[i], nil
		}
		opening := slices.Contains(f.opening, s)
		switch {
		case f.err != nil:
			return Handle{}, f.err
		case s.err != nil || f.closed || asked && !opening:
			return Handle{}, fmt.Errorf("%w: %s cannot be opened in a further session", ErrConnectionLost, f.name)
		}
		err := f.awaitChange(ctx, func() {
			if !opening {
				f.openIn(s)
			}
		})
		if err != nil {
			return Handle{}, err
		}
	}
}

// sessionLost removes the file's handle in a session that has ended.
func (f *handleSet) sessionLost(s *Session) {
	f.handles = slices.DeleteFunc(f.handles, func(h Handle) bool { return h.Session == s })
	if len(f.handles)+len(f.opening) == 0 && f.err == nil {
		f.tries++
		f.reopen()
	}
}

// violated records that the server violated the protocol in the session s.
func (f *handleSet) violated(s *Session) {
	if f.err != nil || f.brokeIn == s || !f.isOpenIn(s) {
		return
	}
	f.brokeIn = s
	if !f.mayAskAgain(s.err) {
		f.endWith(fmt.Errorf("%w (for the second time, so it is not asked again)", s.err))
	}
}

// mayAskAgain counts err if it is a protocol violation, and reports whether the file may be used
// further.
func (f *handleSet) mayAskAgain(err error) bool {
	if errors.Is(err, ErrProtocol) {
		f.broke++
	}
	return f.broke <= maxViolations
}

// reopen opens the file again, if something still uses it. The caller knows that the file is open
// in no session.
func (f *handleSet) reopen() {
	switch {
	case len(f.users) == 0 && f.changes == nil:
		return
	case f.single:
		f.fail(fmt.Errorf("%w: %w", ErrConnectionLost, f.calls.last))
		return
	case f.tries >= maxReopen:
		f.fail(fmt.Errorf("%w, %d times in a row: %w", ErrConnectionLost, f.tries, f.calls.last))
		return
	}
	f.openIn(nil)
}

// openIn sends an OPEN for the file in the session s, or in the least busy session if s is nil.
func (f *handleSet) openIn(s *Session) *Call {
	f.opening = append(f.opening, s)
	h := Handle{Session: s}
	var k *Call
	k = &Call{Session: s,
		Build: func(b []byte, id uint32) []byte {
			return wire.AppendOpen(b, id, f.Path, f.access, wire.Attrs{})
		},
		Take: TakeHandle(&h.Handle),
		then: func(err error) {
			i := slices.Index(f.opening, s)
			f.opening[i] = k.at
			h.Session = k.at
			if g := f.guessIn(h.Session); g != nil && f.guessOpened(g, h, err) {
				return
			}
			if err == nil && !f.Own {
				f.compare(h)
			} else {
				f.opened(h, err)
			}
		},
	}
	f.calls.submit(k)
	return k
}

// opened handles the result of an OPEN. If the file has to be compared first, opened is called
// after the comparison.
func (f *handleSet) opened(h Handle, err error) {
	i := slices.Index(f.opening, h.Session)
	f.opening = slices.Delete(f.opening, i, i+1)
	switch {
	case f.closed:
		if err == nil {
			f.calls.closeHandle(h)
		}
		return
	case err == nil && h.Session.err == nil:
		f.handles = append(f.handles, h)
	case len(f.handles)+len(f.opening) > 0:
		// The file remains usable in its other sessions, or in those with an OPEN under way.
		f.narrow = f.narrow || !errors.Is(err, ErrSessionLost)
	case f.calls.err == nil && (err == nil || errors.Is(err, ErrSessionLost) && f.mayAskAgain(err)):
		f.tries++
		f.reopen()
		return
	default:
		f.fail(err)
	}
	f.notifyWaiting()
	now := time.Now()
	for _, u := range f.users {
		u.ask(now)
	}
	if len(f.users) > 0 {
		f.users[0].grantRoom(now)
	}
}

// guessOpened handles the answer to an OPEN in a session with a guess. It reports whether the
// guessed handle may be right.
func (f *handleSet) guessOpened(g *guess, h Handle, err error) bool {
	if err != nil || h.Handle != g.handle {
		if err == nil {
			f.calls.firstHandle = ""
		}
		f.endGuess(g, false)
		return false
	}
	g.open = true
	f.compareGuess(g)
	return true
}

// compareGuess compares the attributes of the guessed handle with those of the file, once both OPEN
// and FSTAT are answered.
func (f *handleSet) compareGuess(g *guess) {
	if g.open && g.answered {
		f.described(Handle{g.session, g.handle}, g.attrs, g.why)
	}
}

// endGuess removes a guess. If the guess was wrong, the answers to the READs that used it are
// dropped, and their ranges are requested again.
func (f *handleSet) endGuess(g *guess, right bool) {
	f.guesses = slices.DeleteFunc(f.guesses, func(other *guess) bool { return other == g })
	if right {
		return
	}
	for _, id := range g.ids {
		if a := f.calls.table.find(id); a != nil && a.session == g.session {
			a.void = true
			f.calls.pool.link.Lost(a.inner)
		}
	}
}

// compare finds out whether the handle h belongs to this file, or to another file that has replaced
// it under the same name. SFTP version 3 has no file IDs, so compare uses size, owner, mode and
// times. It compares those of h with those that the file had when it was opened. If they differ, the
// file may merely have changed since then. So compare then requests the current attributes of the
// file too, with a handle that is known to belong to it.
func (f *handleSet) compare(h Handle) {
	now := new(wire.Attrs)
	f.fstat(h, now, func(err error) { f.described(h, *now, err) })
}

// described handles the answer to the FSTAT of a handle that is being compared.
func (f *handleSet) described(h Handle, now wire.Attrs, err error) {
	if old, ok := f.idlest(0); err == nil && !f.same(f.Known, now, f.sure) && ok {
		f.compareWith(h, old)
		return
	}
	f.compared(h, err, f.Known, now, f.sure)
}

// compareWith compares the current attributes of the handle h with those of old, a handle that is
// known to belong to the file.
func (f *handleSet) compareWith(h, old Handle) {
	var now, then wire.Attrs
	sure, missing := f.sure, 2
	done := func(err error) {
		if missing--; missing < 0 || missing > 0 && err == nil {
			return
		}
		missing = 0
		f.compared(h, err, then, now, sure)
	}
	f.fstat(old, &then, done)
	f.fstat(h, &now, done)
}

// fstat requests the attributes of a handle, stores them in *a, and passes the error of the request
// to the function `then`.
func (f *handleSet) fstat(h Handle, a *wire.Attrs, then func(error)) {
	f.calls.submit(&Call{Session: h.Session, Take: TakeAttrs(a), then: then, Build: func(b []byte, id uint32) []byte {
		return wire.AppendFstat(b, id, h.Handle)
	}})
}

// compared handles the result of a comparison. It accepts the handle h if the attributes `then` and
// `now` describe the same file. Otherwise, or after the error err, it closes h.
func (f *handleSet) compared(h Handle, err error, then, now wire.Attrs, sure int64) {
	if err == nil && !f.same(then, now, sure) {
		err = fmt.Errorf("%s is another file by now", f.name)
	}
	if err != nil {
		f.calls.closeHandle(h)
	}
	if g := f.guessIn(h.Session); g != nil {
		f.endGuess(g, err == nil)
	}
	f.opened(h, err)
}

// same reports whether the attributes `then` and `now` describe the same file. At the time of the
// request for `now`, the server had confirmed all data before the offset `sure`.
func (f *handleSet) same(then, now wire.Attrs, sure int64) bool {
	both := then.Flags & now.Flags
	if both&wire.AttrOwner != 0 && (then.UID != now.UID || then.GID != now.GID) ||
		both&wire.AttrMode != 0 && then.Mode != now.Mode {
		return false
	}
	if f.access&wire.OpenWrite != 0 {
		// WRITEs may be in flight, so the file must end somewhere between the confirmed data and
		// the data that was sent. Another file would have a size in that range only by chance.
		return now.Has(wire.AttrSize) && now.Size >= max(f.Known.Size, sure) && now.Size <= max(f.Known.Size, f.reach)
	}
	const known = wire.AttrSize | wire.AttrTimes
	return both&known == known && then.Size == now.Size && then.Mtime == now.Mtime
}
