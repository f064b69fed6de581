package sftpclient

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// maxReopen is how many times in a row a file whose lanes are gone is opened
// again without anything moving.
const maxReopen = 3

// A remoteFile is a file that is open on the server, on one lane or on several:
// a handle is good on the lane it was given on, and nowhere else.
type remoteFile struct {
	mux   *mux
	name  string // as the caller has it
	path  string // as the server is asked
	write bool
	both  bool // and to be read

	// own is set if nobody else knows the name, and only if the client does not
	// have to look whether what it opens again is the same file.
	own bool

	// single is set if the file can only be used on the lane it was opened on:
	// what is appended has to come in order.
	single bool

	// All of mux.mu:
	known   wire.Attrs // as the file was when it was opened
	handles []handleAt
	broke   int           // lanes under it on which the server broke the protocol,
	brokeOn *lane         // and the last of them
	opening []*lane       // opens under way, and where; nil for anywhere
	users   int           // transfers
	tries   int           // opens in a row that lost their lane
	narrow  bool          // it is open on all lanes that it ever will be
	closed  bool          // and so are what comes of opens under way
	err     error         // why it is open nowhere
	changes chan struct{} // closed when handles or err have changed; nil if nobody waits
	reach   int64         // end of what has been written, at the most
	sure    int64         // end of what the server has confirmed of that, at the least
}

// A handleAt is a handle and its lane.
type handleAt struct {
	lane   *lane
	handle string
}

// spread opens the file on further lanes until it is open on so many, and on so
// many of each connection, as far as there are lanes. The caller holds mu.
func (f *remoteFile) spread(want, even int) {
	f.handles = slices.DeleteFunc(f.handles, func(h handleAt) bool { return h.lane.gone })
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
		l := f.fresh()
		if l == nil || have >= want && f.onConn(l.conn) >= even {
			return
		}
		f.openOn(l)
	}
}

// fresh returns a lane that the file is not open on, of the connection which it
// is open on the fewest of, or nil if there is none.
func (f *remoteFile) fresh() (best *lane) {
	least := math.MaxInt
	for _, l := range f.mux.pool.lanes {
		if l == nil || l.err != nil || f.on(l) || slices.Contains(f.opening, l) {
			continue
		}
		if n := f.onConn(l.conn); n < least {
			best, least = l, n
		}
	}
	return best
}

// onConn returns on how many lanes of a connection the file is open, or about
// to be.
func (f *remoteFile) onConn(conn *connection) int {
	n := 0
	for _, h := range f.handles {
		if h.lane.conn == conn {
			n++
		}
	}
	for _, l := range f.opening {
		if l != nil && l.conn == conn {
			n++
		}
	}
	return n
}

// widens reports whether the file can be opened on lanes that are yet to come.
func (f *remoteFile) widens() bool { return !f.narrow && !f.single }

// on reports whether the file is open on a lane.
func (f *remoteFile) on(l *lane) bool {
	return slices.ContainsFunc(f.handles, func(h handleAt) bool { return h.lane == l })
}

// idlest returns the handle on the lane which has the least to do, of the
// connection which has: the lanes of one share its way. Lanes that have room for
// n bytes come first. The caller holds mu.
func (f *remoteFile) idlest(n int) (best handleAt, ok bool) {
	type load struct{ full, conn, lane int }
	var least load
	for _, h := range f.handles {
		if h.lane.err != nil {
			continue
		}
		l := load{conn: f.mux.pool.outstandingOn(h.lane.conn), lane: f.mux.link.Outstanding(h.lane.n)}
		if l.lane+n > pipeline.DefaultLaneBytes {
			l.full = 1
		}
		if !ok || cmp.Or(cmp.Compare(l.full, least.full), cmp.Compare(l.conn, least.conn), cmp.Compare(l.lane, least.lane)) < 0 {
			best, least, ok = h, l, true
		}
	}
	return best, ok
}

// eldest returns the handle that was opened first of those that there are.
func (f *remoteFile) eldest() (handleAt, bool) {
	f.mux.mu.Lock()
	defer f.mux.mu.Unlock()
	for _, h := range f.handles {
		if h.lane.err == nil {
			return h, true
		}
	}
	return handleAt{}, false
}

// reopen opens a file whose lanes are all gone on another one, if it is in use.
// The caller holds mu.
func (f *remoteFile) reopen() {
	switch {
	case f.users == 0 && f.changes == nil:
		return
	case f.single:
		f.fail(fmt.Errorf("%w: %w", ErrConnectionLost, f.mux.last))
		return
	case f.tries >= maxReopen:
		f.fail(fmt.Errorf("%w, %d times in a row: %w", ErrConnectionLost, f.tries, f.mux.last))
		return
	}
	f.openOn(nil)
}

// openOn opens the file again on a lane, or on whichever is idlest for nil. The
// caller holds mu.
func (f *remoteFile) openOn(l *lane) {
	f.opening = append(f.opening, l)
	flags := wire.OpenRead
	switch {
	case f.write && f.both:
		flags |= wire.OpenWrite
	case f.write:
		flags = wire.OpenWrite
	}
	h := handleAt{lane: l}
	var k *call
	k = &call{lane: l,
		build: func(b []byte, id uint32) []byte {
			return wire.AppendOpen(b, id, f.path, flags, wire.Attrs{})
		},
		take: takeHandle(&h.handle),
		then: func(err error) {
			i := slices.Index(f.opening, l)
			f.opening[i] = k.at
			if h.lane = k.at; err == nil && !f.own {
				f.compare(h)
			} else {
				f.opened(h, err)
			}
		},
	}
	f.mux.submit(k)
}

// compare looks whether a handle is one of the file, or of another that has its
// name by now. Version 3 has no number that would tell, so size, owner, mode and
// times must do: those that the file had when it was opened, or, if it has
// changed since then, those that it has where it is open. The caller holds mu.
func (f *remoteFile) compare(h handleAt) {
	now := new(wire.Attrs)
	f.fstat(h, now, func(err error) {
		if old, ok := f.idlest(0); err == nil && !f.same(f.known, *now, f.sure) && ok {
			f.compareWith(h, old)
			return
		}
		f.compared(h, err, f.known, *now, f.sure)
	})
}

// compareWith does so with the file where it is open.
func (f *remoteFile) compareWith(h, old handleAt) {
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

// fstat asks for the attributes of a handle. The caller holds mu.
func (f *remoteFile) fstat(h handleAt, a *wire.Attrs, then func(error)) {
	f.mux.submit(&call{lane: h.lane, take: takeAttrs(a), then: then, build: func(b []byte, id uint32) []byte {
		return wire.AppendFstat(b, id, h.handle)
	}})
}

// compared takes a handle, or closes it. The caller holds mu.
func (f *remoteFile) compared(h handleAt, err error, then, now wire.Attrs, sure int64) {
	if err == nil && !f.same(then, now, sure) {
		err = fmt.Errorf("%s is another file by now", f.name)
	}
	if err != nil {
		f.mux.closeHandle(h)
	}
	f.opened(h, err)
}

// same reports whether what was opened again, and is described by now, is the
// file that was known as then. sure is how far it was written for certain when
// that was asked. The caller holds mu.
func (f *remoteFile) same(then, now wire.Attrs, sure int64) bool {
	both := then.Flags & now.Flags
	if both&wire.AttrOwner != 0 && (then.UID != now.UID || then.GID != now.GID) ||
		both&wire.AttrMode != 0 && then.Mode != now.Mode {
		return false
	}
	if f.write {
		// Writes of ours are under way. Its size lies between what is confirmed
		// and what was sent; another file's would do so by chance only.
		return now.Has(wire.AttrSize) && now.Size >= max(f.known.Size, sure) && now.Size <= max(f.known.Size, f.reach)
	}
	const tell = wire.AttrSize | wire.AttrTimes
	return both&tell == tell && then.Size == now.Size && then.Mtime == now.Mtime
}

// opened ends an opening. The caller holds mu.
func (f *remoteFile) opened(h handleAt, err error) {
	i := slices.Index(f.opening, h.lane)
	f.opening = slices.Delete(f.opening, i, i+1)
	switch {
	case f.closed:
		if err == nil {
			f.mux.closeHandle(h)
		}
		return
	case err == nil && h.lane.err == nil:
		f.handles = append(f.handles, h)
	case len(f.handles)+len(f.opening) > 0:
		f.narrow = true // it goes on with what it has
	case f.mux.err == nil && (err == nil || isLaneGone(err) && f.mayAskAgain(err)):
		f.tries++
		f.reopen()
		return
	default:
		f.fail(err)
	}
	f.notifyWaiting()
	now := time.Now()
	for t := range f.mux.transfers {
		if t.file == f {
			t.ask(now)
		}
	}
	f.mux.serve(now)
}

// fail gives up. The caller holds mu.
func (f *remoteFile) fail(err error) {
	if f.err != nil || len(f.handles) > 0 {
		return
	}
	f.err = plain(err)
	f.notifyWaiting()
	for t := range f.mux.transfers {
		if t.file == f && !t.gone {
			t.fail(f.err)
		}
	}
}

// notifyWaiting wakes those who wait for changes.
func (f *remoteFile) notifyWaiting() {
	if f.changes != nil {
		close(f.changes)
		f.changes = nil
	}
}

// laneGone forgets the handle on a lane that has ended. The caller holds mu.
func (f *remoteFile) laneGone(l *lane) {
	f.handles = slices.DeleteFunc(f.handles, func(h handleAt) bool { return h.lane == l })
	if len(f.handles)+len(f.opening) == 0 && f.err == nil {
		f.tries++
		f.reopen()
	}
}

// handle waits until the file is open somewhere, and returns where.
func (f *remoteFile) handle(ctx context.Context) (handleAt, error) {
	f.mux.mu.Lock()
	defer f.mux.mu.Unlock()
	for {
		if h, ok := f.idlest(0); ok {
			return h, nil
		}
		if f.err != nil {
			return handleAt{}, f.err
		}
		if f.mux.err != nil {
			return handleAt{}, f.mux.err
		}
		if f.changes == nil {
			f.changes = make(chan struct{})
		}
		changes := f.changes
		f.spread(1, 0)
		f.mux.mu.Unlock()
		var err error
		select {
		case <-changes:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		f.mux.mu.Lock()
		if err != nil {
			return handleAt{}, err
		}
	}
}

// ask asks something about the open file, and asks again if the lane is lost
// under it and again says so.
func (f *remoteFile) ask(ctx context.Context, k call, build func(b []byte, id uint32, handle string) []byte) error {
	for tries := 1; ; tries++ {
		h, err := f.handle(ctx)
		if err != nil {
			return err
		}
		next := k
		next.lane = h.lane
		next.build = func(b []byte, id uint32) []byte { return build(b, id, h.handle) }
		err = f.mux.do(ctx, &next)
		if !isLaneGone(err) || !k.again || !askAgain(err, tries) {
			return err
		}
	}
}

// close closes the file on all lanes. If it waits, it returns what the server
// said of it, and else nothing.
func (f *remoteFile) close(ctx context.Context, waits bool) error {
	f.mux.mu.Lock()
	f.closed = true
	handles := f.handles
	f.handles = nil
	if f.err == nil {
		f.err = fs.ErrClosed
	}
	f.notifyWaiting()
	if !waits {
		for _, h := range handles {
			f.mux.closeHandle(h)
		}
		f.mux.mu.Unlock()
		return nil
	}
	f.mux.mu.Unlock()
	errs := make(chan error, len(handles))
	for _, h := range handles {
		go func() {
			errs <- f.mux.do(ctx, &call{lane: h.lane, take: takeOK, build: func(b []byte, id uint32) []byte {
				return wire.AppendClose(b, id, h.handle)
			}})
		}()
	}
	var first error
	for range handles {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// closeHandle closes one handle, and does not wait. The caller holds mu.
func (m *mux) closeHandle(h handleAt) {
	if h.lane.err != nil || m.err != nil {
		return // it went with the lane
	}
	m.closing++
	m.submit(&call{lane: h.lane, take: takeOK, then: m.handleClosed, build: func(b []byte, id uint32) []byte {
		return wire.AppendClose(b, id, h.handle)
	}})
}
