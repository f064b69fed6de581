package mux

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// maxCopyData is how many bytes the server is asked to copy at once, so that
// a caller who waits sees now and then that it proceeds.
const maxCopyData = 256 << 20

// Clone has the server copy the first size bytes of a file to another, which has none
// (copy-data). copied is called with how many more came to be there. A file that has become
// shorter has fewer.
func (f *File) Clone(ctx context.Context, to *File, size int64, copied func(n int64)) error {
	// A handle is good on its lane only, and this takes two.
	b, err := to.Handle(ctx)
	if err != nil {
		return err
	}
	a, err := f.handleOn(ctx, b.Lane)
	for n := int64(0); err == nil && n < size; {
		some := min(size-n, maxCopyData)
		err = f.mux.Do(ctx, &Call{Lane: a.Lane, Take: TakeOK, Slow: true, Build: func(p []byte, id uint32) []byte {
			return wire.AppendCopyData(p, id, a.Handle, n, some, b.Handle, n)
		}})
		if err == nil {
			n += some
			copied(some)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// handleOn waits until the file is open on a lane, and returns the handle there.
func (f *File) handleOn(ctx context.Context, l *Lane) (Handle, error) {
	f.mux.mu.Lock()
	defer f.mux.mu.Unlock()
	for asked := false; ; asked = true {
		if i := slices.IndexFunc(f.handles, func(h Handle) bool { return h.Lane == l }); i >= 0 && l.err == nil {
			return f.handles[i], nil
		}
		opening := slices.Contains(f.opening, l)
		switch {
		case f.err != nil:
			return Handle{}, f.err
		case l.err != nil || f.closed || asked && !opening:
			return Handle{}, fmt.Errorf("%w: %s cannot be opened in a further session", ErrConnectionLost, f.name)
		}
		err := f.awaitChange(ctx, func() {
			if !opening {
				f.openOn(l)
			}
		})
		if err != nil {
			return Handle{}, err
		}
	}
}
