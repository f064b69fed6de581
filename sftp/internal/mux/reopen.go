package mux

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// maxReopen is how many times in a row a file whose lanes are gone is opened
// again without anything moving.
const maxReopen = 3

// reopen opens a file that has lost all its lanes on another lane, if it is in use.
// The caller holds mu.
func (f *File) reopen() {
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
func (f *File) openOn(l *Lane) *Call {
	f.opening = append(f.opening, l)
	h := Handle{Lane: l}
	var k *Call
	k = &Call{Lane: l,
		Build: func(b []byte, id uint32) []byte {
			return wire.AppendOpen(b, id, f.Path, f.access, wire.Attrs{})
		},
		Take: TakeHandle(&h.Handle),
		Then: func(err error) {
			i := slices.Index(f.opening, l)
			f.opening[i] = k.At
			h.Lane = k.At
			switch {
			case h.Lane != nil && h.Lane.guesses(f) && f.openedAhead(h, err):
			case err == nil && !f.Own:
				f.compare(h)
			default:
				f.opened(h, err)
			}
		},
	}
	f.mux.Submit(k)
	return k
}

// compare looks whether a handle is one of the file, or of another that has its
// name by now. Version 3 has no number of a file, so size, owner, mode and
// times must do: those that the file had when it was opened, or, if it has
// changed since then, those that it has where it is open. The caller holds mu.
func (f *File) compare(h Handle) {
	now := new(wire.Attrs)
	f.fstat(h, now, func(err error) { f.described(h, *now, err) })
}

// described takes what a handle is said to be of. The caller holds mu.
func (f *File) described(h Handle, now wire.Attrs, err error) {
	if old, ok := f.idlest(0); err == nil && !f.same(f.Known, now, f.sure) && ok {
		f.compareWith(h, old)
		return
	}
	f.compared(h, err, f.Known, now, f.sure)
}

// compareWith does so with the file where it is open.
func (f *File) compareWith(h, old Handle) {
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
func (f *File) fstat(h Handle, a *wire.Attrs, then func(error)) {
	f.mux.Submit(&Call{Lane: h.Lane, Take: TakeAttrs(a), Then: then, Build: func(b []byte, id uint32) []byte {
		return wire.AppendFstat(b, id, h.Handle)
	}})
}

// compared takes a handle, or closes it. The caller holds mu.
func (f *File) compared(h Handle, err error, then, now wire.Attrs, sure int64) {
	if err == nil && !f.same(then, now, sure) {
		err = fmt.Errorf("%s is another file by now", f.name)
	}
	if err != nil {
		f.mux.CloseHandle(h)
	}
	if h.Lane.guesses(f) {
		h.Lane.endGuess(err == nil)
	}
	f.opened(h, err)
}

// same reports whether what was opened again, and is described by now, is the
// file that was known as then. sure is how far it was written for certain when
// that was asked. The caller holds mu.
func (f *File) same(then, now wire.Attrs, sure int64) bool {
	both := then.Flags & now.Flags
	if both&wire.AttrOwner != 0 && (then.UID != now.UID || then.GID != now.GID) ||
		both&wire.AttrMode != 0 && then.Mode != now.Mode {
		return false
	}
	if f.access&wire.OpenWrite != 0 {
		// Writes of ours are under way. Its size lies between what is confirmed
		// and what was sent; another file's would do so by chance only.
		return now.Has(wire.AttrSize) && now.Size >= max(f.Known.Size, sure) && now.Size <= max(f.Known.Size, f.reach)
	}
	const known = wire.AttrSize | wire.AttrTimes
	return both&known == known && then.Size == now.Size && then.Mtime == now.Mtime
}

// opened ends an opening. The caller holds mu.
func (f *File) opened(h Handle, err error) {
	i := slices.Index(f.opening, h.Lane)
	f.opening = slices.Delete(f.opening, i, i+1)
	switch {
	case f.closed:
		if err == nil {
			f.mux.CloseHandle(h)
		}
		return
	case err == nil && h.Lane.err == nil:
		f.handles = append(f.handles, h)
	case len(f.handles)+len(f.opening) > 0:
		// It continues with what it has, and with lanes that come.
		f.narrow = f.narrow || !errors.Is(err, ErrLaneLost)
	case f.mux.err == nil && (err == nil || errors.Is(err, ErrLaneLost) && f.mayAskAgain(err)):
		f.tries++
		f.reopen()
		return
	default:
		f.fail(err)
	}
	f.notifyWaiting()
	now := time.Now()
	for t := range f.mux.transfers {
		if t.File == f {
			t.Ask(now)
		}
	}
	f.mux.GrantRoom(now)
}

// broken is called for a lane on which the server broke the protocol. The caller
// holds mu.
func (f *File) broken(l *Lane) {
	if f.err != nil || f.brokeOn == l || !f.on(l) {
		return
	}
	f.brokeOn = l
	if f.mayAskAgain(l.err) {
		return
	}
	f.endWith(fmt.Errorf("%w (for the second time, so it is not asked again)", l.err))
}

// mayAskAgain counts violations of the protocol, and reports whether the file is
// used on after err. The caller holds mu.
func (f *File) mayAskAgain(err error) bool {
	if errors.Is(err, ErrProtocol) {
		f.broke++
	}
	return f.broke <= maxViolations
}

// OpenOptions says how openFile opens a file. Unless it says otherwise, what the file
// is like is asked at the same time.
type OpenOptions struct {
	Also   *Call       // to be asked in place of what the file is like
	Listed *wire.Attrs // what it is like, so that nothing is asked

	// Patient waits for the answer even if the context has ended, for callers that have
	// to know whether there is a file now.
	Patient bool
}

// Open opens the file for the first time. was is why it is not known what was
// there before.
func (f *File) Open(ctx context.Context, flags wire.OpenFlags, attrs wire.Attrs, how OpenOptions) (was, err error) {
	m := f.mux
	if flags == wire.OpenRead && how.Also == nil {
		if p := m.takePrefetched(f.Path); p != nil {
			f.Known, f.Content = p.attrs, p.whole()
			if p.open == nil {
				f.handles = []Handle{{p.lane, p.handle}}
			}
			return m.config.Refused(p.stat), m.config.Refused(p.open)
		}
	}
	wait := ctx
	if how.Patient {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(context.WithoutCancel(ctx), m.config.Timeout)
		defer cancel()
	}
	for tries := 1; ; tries++ {
		stat := how.Also
		if stat == nil && how.Listed == nil {
			stat = &Call{Take: TakeAttrs(&f.Known), Build: func(b []byte, id uint32) []byte { return wire.AppendStat(b, id, f.Path) }}
		}
		var h string
		open := &Call{Take: TakeHandle(&h), Build: func(b []byte, id uint32) []byte {
			return wire.AppendOpen(b, id, f.Path, flags, attrs)
		}}
		open.Orphan = func() { m.CloseHandle(Handle{open.At, h}) }
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if stat != nil {
			m.Start(stat, open)
			was = m.Await(wait, stat)
		} else {
			m.Start(open)
			f.Known = *how.Listed
		}
		if err = m.Await(wait, open); err == nil {
			m.mu.Lock()
			m.learnHandle(h)
			m.mu.Unlock()
			f.handles = []Handle{{open.At, h}}
		}
		if !errors.Is(err, ErrLaneLost) || flags&wire.OpenExclusive != 0 || !askAgain(err, tries) {
			return was, err
		}
	}
}
