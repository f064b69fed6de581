package mux

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math"
	"slices"

	"github.com/haul-project/haul/internal/pipeline"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// A File is a file that is open on the server, on one lane or on several:
// a handle is good on the lane it was given on, and nowhere else.
type File struct {
	mux    *Mux
	name   string         // as the caller has it
	Path   string         // as the server is asked
	access wire.OpenFlags // OpenRead, OpenWrite or both

	// Own is set if no other client knows the name: then what is opened again is
	// the same file, and is not compared.
	Own bool

	// single is set if the file can only be used on the lane it was opened on:
	// what is appended has to come in order.
	single bool

	// All of mux.mu:
	Known   wire.Attrs // as the file was when it was opened
	Content []byte     // all of it, if that came with the handshake
	handles []Handle
	ending  Handle        // one of these whose CLOSE was sent: see Closing
	broke   int           // lanes under it on which the server broke the protocol,
	brokeOn *Lane         // and the last of them
	opening []*Lane       // opens under way, and where; nil for anywhere
	users   int           // transfers
	tries   int           // opens in a row that lost their lane
	narrow  bool          // it is open on all lanes that it ever will be
	closed  bool          // and so are what comes of opens under way
	err     error         // why it is open nowhere
	changes chan struct{} // closed when handles or err have changed; nil if nothing waits
	reach   int64         // end of what has been written, at the most
	sure    int64         // end of what the server has confirmed of that, at the least
}

// NewFile returns a file that is not open yet.
func (m *Mux) NewFile(name string, flags wire.OpenFlags) *File {
	return &File{mux: m, name: name, Path: name, access: flags & (wire.OpenRead | wire.OpenWrite), single: flags&wire.OpenAppend != 0}
}

// SetAttrs changes attributes of the open file, and keeps what is known of it in step.
func (f *File) SetAttrs(ctx context.Context, a wire.Attrs) error {
	err := f.Ask(ctx, Call{Take: TakeOK, Again: true}, func(b []byte, id uint32, h string) []byte {
		return wire.AppendFsetstat(b, id, h, a)
	})
	f.mux.mu.Lock()
	defer f.mux.mu.Unlock()
	if err == nil && a.Has(wire.AttrSize) {
		f.Known.Size, f.sure, f.reach = a.Size, 0, a.Size
	}
	if f.Known.Flags&a.Flags&^wire.AttrSize != 0 {
		f.Known.Flags &= wire.AttrSize // what else it was like is history
	}
	return err
}

// End returns where the last byte that was sent ends, at the most.
func (f *File) End() int64 {
	f.mux.mu.Lock()
	defer f.mux.mu.Unlock()
	return f.reach
}

// spread opens the file on further lanes until it is open on so many, and on so
// many of each connection, as far as there are lanes. The caller holds mu.
func (f *File) spread(want, even int) {
	f.handles = slices.DeleteFunc(f.handles, func(h Handle) bool { return h.Lane.gone })
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
func (f *File) fresh() (best *Lane) {
	least := math.MaxInt
	for _, l := range f.mux.pool.lanes {
		if l == nil || l.err != nil || !l.ready || f.on(l) || slices.Contains(f.opening, l) {
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
func (f *File) onConn(conn *connection) int {
	n := 0
	for _, h := range f.handles {
		if h.Lane.conn == conn {
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
func (f *File) widens() bool { return !f.narrow && !f.single }

// on reports whether the file is open on a lane.
func (f *File) on(l *Lane) bool {
	return slices.ContainsFunc(f.handles, func(h Handle) bool { return h.Lane == l })
}

// idlest returns the handle on the lane which has the least to do, of the
// connection which has: the lanes of one share its path. Lanes that have room for
// n bytes come first. The caller holds mu.
func (f *File) idlest(n int) (best Handle, ok bool) {
	type load struct{ full, conn, lane int }
	var least load
	for _, h := range f.handles {
		if h.Lane.err != nil {
			continue
		}
		l := load{conn: f.mux.pool.outstandingOn(h.Lane.conn), lane: f.mux.link.Outstanding(h.Lane.n)}
		if l.lane+n > pipeline.DefaultLaneBytes {
			l.full = 1
		}
		if !ok || cmp.Or(cmp.Compare(l.full, least.full), cmp.Compare(l.conn, least.conn), cmp.Compare(l.lane, least.lane)) < 0 {
			best, least, ok = h, l, true
		}
	}
	return best, ok
}

// First returns the handle that was opened first of those that there are.
func (f *File) First() (Handle, bool) {
	f.mux.mu.Lock()
	defer f.mux.mu.Unlock()
	for _, h := range f.handles {
		if h.Lane.err == nil {
			return h, true
		}
	}
	return Handle{}, false
}

// fail makes the file unusable. The caller holds mu.
func (f *File) fail(err error) {
	if f.err != nil || len(f.handles) > 0 {
		return
	}
	f.endWith(Plain(err))
}

// endWith makes the file unusable even if it is open somewhere. The caller holds mu.
func (f *File) endWith(err error) {
	f.err = err
	f.notifyWaiting()
	for t := range f.mux.transfers {
		if t.File == f && !t.gone {
			t.fail(f.err)
		}
	}
}

// notifyWaiting wakes the goroutines that wait for changes.
func (f *File) notifyWaiting() {
	if f.changes != nil {
		close(f.changes)
		f.changes = nil
	}
}

// laneGone forgets the handle on a lane that has ended. The caller holds mu.
func (f *File) laneGone(l *Lane) {
	f.handles = slices.DeleteFunc(f.handles, func(h Handle) bool { return h.Lane == l })
	if len(f.handles)+len(f.opening) == 0 && f.err == nil {
		f.tries++
		f.reopen()
	}
}

// Handle waits until the file is open somewhere, and returns where.
func (f *File) Handle(ctx context.Context) (Handle, error) {
	f.mux.mu.Lock()
	defer f.mux.mu.Unlock()
	for {
		if h, ok := f.idlest(0); ok {
			return h, nil
		}
		if f.err != nil {
			return Handle{}, f.err
		}
		if f.mux.err != nil {
			return Handle{}, f.mux.err
		}
		err := f.awaitChange(ctx, func() {
			// A lane that has failed takes some time to end. Then only transfers hear of it.
			f.handles = slices.DeleteFunc(f.handles, func(h Handle) bool { return h.Lane.err != nil })
			f.spread(1, 0)
		})
		if err != nil {
			return Handle{}, err
		}
	}
}

// awaitChange calls begin, and waits until handles or err have changed. The caller holds mu,
// which is given up meanwhile.
func (f *File) awaitChange(ctx context.Context, begin func()) (err error) {
	if f.changes == nil {
		f.changes = make(chan struct{})
	}
	changes := f.changes
	begin()
	f.mux.mu.Unlock()
	defer f.mux.mu.Lock()
	select {
	case <-changes:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return err
}

// Ask asks something about the open file, and asks again if the lane is lost
// under it and again says so.
func (f *File) Ask(ctx context.Context, k Call, build func(b []byte, id uint32, handle string) []byte) error {
	for tries := 1; ; tries++ {
		h, err := f.Handle(ctx)
		if err != nil {
			return err
		}
		next := k
		next.Lane = h.Lane
		next.Build = func(b []byte, id uint32) []byte { return build(b, id, h.Handle) }
		err = f.mux.Do(ctx, &next)
		if !errors.Is(err, ErrLaneLost) || !k.Again || !askAgain(err, tries) {
			return err
		}
	}
}

// Close closes the file on all lanes. If it waits, it returns the server's answer, and
// else nil.
func (f *File) Close(ctx context.Context, waits bool) error {
	f.mux.mu.Lock()
	f.closed = true
	handles := slices.DeleteFunc(f.handles, func(h Handle) bool { return h == f.ending })
	f.handles = nil
	if f.err == nil {
		f.err = fs.ErrClosed
	}
	f.notifyWaiting()
	if !waits {
		for _, h := range handles {
			f.mux.CloseHandle(h)
		}
		f.mux.mu.Unlock()
		return nil
	}
	f.mux.mu.Unlock()
	errs := make(chan error, len(handles))
	for _, h := range handles {
		go func() {
			errs <- f.mux.Do(ctx, &Call{Lane: h.Lane, Take: TakeOK, Build: func(b []byte, id uint32) []byte {
				return wire.AppendClose(b, id, h.Handle)
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
