package cache

import (
	"context"
	"fmt"
	"io/fs"
	"sync"

	"github.com/haul-project/haul/store"
)

var errNotWriting = fmt.Errorf("%w: not open for writing", fs.ErrPermission)

// A writtenHandle is a file of the source that is open to be written in place.
type writtenHandle struct {
	store.Handle
	s    *front
	name string
	n    *entry
	once sync.Once
}

// Unwrap is for [store.As].
func (h *writtenHandle) Unwrap() any { return h.Handle }

// Close closes the file. When no writtenHandle of the file is open any more, the cache may store
// the file again.
func (h *writtenHandle) Close() error {
	err := h.Handle.Close()
	h.once.Do(func() {
		h.s.changed(h.name)
		h.s.unwritten(h.n)
	})
	return err
}

// A readHandle is a cached file that was opened by [store.Tree].OpenFile for reading only.
type readHandle struct {
	*file
	t    treeFront
	ctx  context.Context // the context of OpenFile
	name string
}

func (h *readHandle) WriteAt([]byte, int64) (int, error) { return 0, h.fail("write", errNotWriting) }
func (h *readHandle) Truncate(int64) error               { return h.fail("truncate", errNotWriting) }

// Sync only checks that the file is open: it cannot have been written to.
func (h *readHandle) Sync() error { return h.still("sync") }

// SetAttr changes the attributes of the file that has the name now.
func (h *readHandle) SetAttr(a store.Attr) error {
	if err := h.still("setattr"); err != nil {
		return err
	}
	if a.Size != nil {
		return h.fail("setattr", errNotWriting)
	}
	return h.t.SetAttr(h.ctx, h.name, a, true)
}

// OpenFile opens a file of the source to be written in place. Until the handle is closed, the cache
// does not store the file. If a is for reading only, OpenFile opens the cached file, as Open does.
func (t treeFront) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	if !a.Writes() {
		return t.openToRead(ctx, name, a)
	}
	s := t.front
	s.c.mu.Lock()
	n := s.entry(name)
	n.writers++
	if n.object != nil {
		n.object.written.Store(true)
	}
	s.c.mu.Unlock()
	h, err := t.tree.OpenFile(ctx, name, a)
	s.changed(name)
	if err != nil {
		s.unwritten(n)
		return nil, err
	}
	return &writtenHandle{Handle: h, s: s, name: name, n: n}, nil
}

// unwritten records that a writtenHandle of the entry was closed.
func (s *front) unwritten(n *entry) {
	s.c.mu.Lock()
	n.writers--
	s.c.mu.Unlock()
}

// openToRead opens a cached file for reading only.
func (t treeFront) openToRead(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	if err := a.Check(); err != nil {
		// OpenFile fails, and returns the error that the tree uses for an invalid Access.
		return t.tree.OpenFile(ctx, name, a)
	}
	f, err := t.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	cached, ok := store.As[*file](f)
	if !ok {
		_ = f.Close()
		return t.tree.OpenFile(ctx, name, a)
	}
	return &readHandle{cached, t, ctx, name}, nil
}
