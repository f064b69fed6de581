package mux

import (
	"context"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// OpenOptions says how openFile opens a file. Unless it says otherwise, what the file
// is like is asked at the same time.
type OpenOptions struct {
	On     *Lane       // to be open there; nil for anywhere
	Also   *Call       // to be asked in place of what the file is like
	Listed *wire.Attrs // what it is like, so that nothing is asked

	// Patient waits for the answer even if the context has ended, for who has to
	// know whether there is a file now.
	Patient bool
}

// Open opens the file for the first time. was is why it is not known what was
// there before.
func (f *File) Open(ctx context.Context, flags wire.OpenFlags, attrs wire.Attrs, how OpenOptions) (was, err error) {
	m := f.mux
	if flags == wire.OpenRead && how.On == nil && how.Also == nil {
		if p := m.takePrefetched(f.Path); p != nil {
			f.Known, f.Content = p.attrs, p.whole()
			if p.open == nil {
				f.handles = []Handle{{p.lane, p.handle}}
			}
			return p.stat, p.open
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
		open := &Call{Lane: how.On, Take: TakeHandle(&h), Build: func(b []byte, id uint32) []byte {
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
			f.handles = []Handle{{open.At, h}}
		}
		if !IsLaneLost(err) || flags&wire.OpenExclusive != 0 || !askAgain(err, tries) {
			return was, err
		}
	}
}
