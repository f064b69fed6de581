package cache

import (
	"context"
	"fmt"
	"io/fs"
	"sync"

	"github.com/haul-project/haul/store"
)

var errNotWriting = fmt.Errorf("%w: not open for writing", fs.ErrPermission)

// A direct file is one of the source that the cache does not keep.
type direct struct {
	src  *origin
	stop func() bool
}

// newDirect returns a file of the source, which ends with ctx.
func newDirect(ctx context.Context, src *origin) *direct {
	return &direct{src, context.AfterFunc(ctx, src.cancel)}
}

func (d *direct) ReadAt(p []byte, off int64) (int, error) { return d.src.file.ReadAt(p, off) }
func (d *direct) Stat() (fs.FileInfo, error)              { return d.src.file.Stat() }

// Location returns where the source has opened the file.
func (d *direct) Location() store.Location { return store.LocationOf(d.src.file) }

func (d *direct) Close() error {
	d.stop()
	defer d.src.cancel()
	return d.src.file.Close()
}

// A writtenHandle is a file of the source that is written in place.
type writtenHandle struct {
	store.Handle
	s    *front
	name string
	n    *entry
	once sync.Once
}

// Unwrap is for [store.As].
func (h *writtenHandle) Unwrap() any { return h.Handle }

// Close ends the time in which the cache has nothing of the file.
func (h *writtenHandle) Close() error {
	err := h.Handle.Close()
	h.once.Do(func() {
		h.s.changed(h.name)
		h.s.unwritten(h.n)
	})
	return err
}

// A readHandle is a file in the cache that is open as by [store.Tree].OpenFile.
type readHandle struct {
	*file
	t    treeFront
	ctx  context.Context // of OpenFile
	name string
}

func (h *readHandle) WriteAt([]byte, int64) (int, error) { return 0, h.fail("write", errNotWriting) }
func (h *readHandle) Truncate(int64) error               { return h.fail("truncate", errNotWriting) }

// Sync does nothing: nothing was written.
func (h *readHandle) Sync() error { return h.still("sync") }

// SetAttr changes the file that has the name now.
func (h *readHandle) SetAttr(a store.Attr) error {
	if err := h.still("setattr"); err != nil {
		return err
	}
	if a.Size != nil {
		return h.fail("setattr", errNotWriting)
	}
	return h.t.SetAttr(h.ctx, h.name, a, true)
}
