package mux

import (
	"context"
	"errors"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// OpenOptions says how Open opens a file. By default, Open also requests the attributes of the file
// in the same packet.
type OpenOptions struct {
	Also   *Call       // a call to send in place of the request for attributes
	Listed *wire.Attrs // attributes of the file that are known already, so they are not requested

	// Patient makes Open wait for the answer even after the context has ended. It is for callers
	// that must know whether the file exists.
	Patient bool
}

// Open opens the file for the first time. The result `was` is the error of the request for
// the attributes that the file had before it was opened.
func (f *File) Open(ctx context.Context, flags wire.OpenFlags, attrs wire.Attrs, how OpenOptions) (was, err error) {
	m := f.mux
	if flags == wire.OpenRead && how.Also == nil {
		if p := m.takePrefetched(f.Path); p != nil {
			f.Known, f.Content = p.attrs, p.whole()
			if p.open == nil {
				f.handles = []Handle{{p.session, p.handle}}
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
		open.Orphan = func() { m.calls.closeHandle(Handle{open.at, h}) }
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
			f.handles = []Handle{{open.at, h}}
		}
		if !errors.Is(err, ErrSessionLost) || flags&wire.OpenExclusive != 0 || !askAgain(err, tries) {
			return was, err
		}
	}
}

// takePrefetched returns the prefetched first file if it has that name, its session is alive and
// its answers are not too old. It returns the file only once.
func (m *Mux) takePrefetched(name string) *prefetched {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.prefetched
	if f == nil || f.name != name {
		return nil
	}
	m.prefetched = nil
	if f.session.err == nil && time.Now().Before(f.until) {
		return f
	}
	if f.open == nil {
		m.calls.closeHandle(Handle{f.session, f.handle})
	}
	return nil
}

// PrefetchedAttrs returns the answer to the STAT of the first file, at most prefetchStats times.
// The result ok is false if there is no answer for that name.
func (m *Mux) PrefetchedAttrs(name string) (a wire.Attrs, err error, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.prefetched
	if f == nil || f.name != name || f.stats == prefetchStats || !time.Now().Before(f.until) {
		return wire.Attrs{}, nil, false
	}
	f.stats++
	return f.attrs, m.config.Refused(f.stat), true
}
