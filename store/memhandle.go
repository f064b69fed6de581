package store

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math"
	"strings"

	"github.com/haul-project/haul/store/internal/rules"
)

// OpenFile opens a file to be read and written in place: see [Tree] and [Mem].
func (m *memStore) OpenFile(ctx context.Context, name string, a Access) (Handle, error) {
	err := rules.CheckName(ctx, name)
	if err == nil {
		err = a.Check()
	}
	if err == nil {
		var h *memHandle
		if h, err = m.openFile(name, a); err == nil {
			return h, nil
		}
	}
	return nil, memFail("open", name, err)
}

func (m *memStore) openFile(name string, a Access) (*memHandle, error) {
	for {
		h, busy, err := m.tryOpen(name, a)
		if busy == nil {
			return h, err
		}
		if err := m.thaw(busy); err != nil {
			return nil, err
		}
	}
}

// A frozenFile is a file that others have open for reading, so that it must be copied before it can
// be written.
type frozenFile struct {
	node *memNode
	file *memFile // the frozenFile holds a reference to it, which thaw releases
}

// tryOpen opens a file. If the file is frozen, it returns the frozenFile and no handle; the caller
// thaws it and tries again.
func (m *memStore) tryOpen(name string, a Access) (*memHandle, *frozenFile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := m.root.walk(name, !a.Exclusive)
	switch {
	case err != nil:
	case p.node != nil && a.Exclusive:
		err = fs.ErrExist
	case p.node != nil && !p.node.mode.IsRegular():
		err = ErrNotRegular
	case p.node == nil && (!a.Create || strings.Contains(p.base, "/")):
		err = fs.ErrNotExist
	case p.node == nil:
		p.node, err = m.createLive(p, a)
	}
	if err != nil {
		return nil, nil, err
	}
	n := p.node
	if a.Writes() && !n.file.live {
		if n.file.refs.Load() > 1 {
			n.file.refs.Add(1)
			return nil, &frozenFile{n, n.file}, nil
		}
		n.file.live = true // nobody else has a reference, and nobody can get one without mu
	}
	if a.Truncate {
		if err := n.file.truncate(0); err != nil {
			return nil, nil, err
		}
		n.touch()
	}
	n.file.refs.Add(1)
	return &memHandle{memReader{file: n.file, node: n, info: n.info(name), live: n.file.live}, m, a}, nil, nil
}

// createLive makes an empty live file. The caller holds mu.
func (m *memStore) createLive(p memPlace, a Access) (*memNode, error) {
	b, err := newBlock(&m.budget, 0)
	if err != nil {
		return nil, err
	}
	n := newMemNode(rules.FilePerm(a.Perm))
	n.file = newMemFile(b)
	n.file.live = true
	return n, m.enter(p, n) // charges nothing for directories: the file's directory exists
}

// thaw replaces the content of a frozen file by a copy that can be written. It releases the
// reference that f holds.
func (m *memStore) thaw(f *frozenFile) error {
	old := f.file
	defer old.drop()
	data := old.block.data
	b, err := newBlock(&m.budget, int64(len(data)))
	if err != nil {
		return err
	}
	if err := b.extend(int64(len(data))); err != nil {
		b.free()
		return err
	}
	copy(b.data, data)
	live := newMemFile(b)
	live.live = true
	m.mu.Lock()
	if f.node.file == old && f.node.names > 0 {
		f.node.file, live = live, old
	}
	m.mu.Unlock()
	live.drop() // the old content or, if the file was replaced meanwhile, the unused copy
	return nil
}

// A memHandle is a file that is open in place. If it is open for writing, its file is live.
type memHandle struct {
	memReader
	store  *memStore
	access Access
}

func (h *memHandle) Stat() (fs.FileInfo, error) {
	if !h.begin() {
		return nil, h.fail("stat", fs.ErrClosed)
	}
	defer h.end()
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	i := h.node.info(h.info.name)
	i.size = h.file.size()
	return i, nil
}

func (h *memHandle) ReadAt(p []byte, off int64) (int, error) {
	if !h.access.Read {
		return 0, h.fail("read", rules.ErrNotReading)
	}
	return h.memReader.ReadAt(p, off)
}

// TryReadAt never returns ErrWouldBlock. It may wait for a write to the same file in memory.
func (h *memHandle) TryReadAt(bufs [][]byte, off int64) (int, error) {
	if !h.access.Read {
		return 0, h.fail("read", rules.ErrNotReading)
	}
	return h.memReader.TryReadAt(bufs, off)
}

func (h *memHandle) WriteAt(p []byte, off int64) (int, error) {
	if err := h.beginWrite(); err != nil {
		return 0, h.fail("write", err)
	}
	defer h.end()
	if off < 0 || off > math.MaxInt64-int64(len(p)) {
		return 0, h.fail("write", fs.ErrInvalid)
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := h.file.write(p, off, h.access.Append)
	if err != nil {
		return 0, h.fail("write", err)
	}
	h.node.touch()
	return n, nil
}

func (h *memHandle) Truncate(size int64) error {
	err := h.beginWrite()
	if err == nil {
		defer h.end()
		err = h.truncate(size)
	}
	if err != nil {
		return h.fail("truncate", err)
	}
	return nil
}

func (h *memHandle) truncate(size int64) error {
	if size < 0 {
		return fs.ErrInvalid
	}
	err := h.file.truncate(size)
	if err == nil {
		h.node.touch()
	}
	return err
}

func (h *memHandle) SetAttr(a Attr) error {
	if err := h.setAttr(a); err != nil {
		return h.fail("setattr", err)
	}
	return nil
}

func (h *memHandle) setAttr(a Attr) error {
	if err := a.Check(); err != nil {
		return err
	}
	if a.Size != nil && !h.access.Writes() {
		return rules.ErrNotWriting
	}
	if !h.begin() {
		return fs.ErrClosed
	}
	defer h.end()
	var err error
	if a.Size != nil {
		err = h.truncate(*a.Size)
	}
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	return cmp.Or(err, h.node.setAttr(a))
}

// Sync only checks that the handle is open: memory has nothing to sync to.
func (h *memHandle) Sync() error {
	if !h.begin() {
		return h.fail("sync", fs.ErrClosed)
	}
	h.end()
	return nil
}

// Close frees the capacity that the file reserved but does not need.
func (h *memHandle) Close() error {
	if h.access.Writes() && h.begin() {
		h.file.fit()
		h.end()
	}
	return h.memReader.Close()
}

// beginWrite is like begin, but also checks that the handle is open for writing.
func (h *memHandle) beginWrite() error {
	if !h.access.Writes() {
		return rules.ErrNotWriting
	}
	if !h.begin() {
		return fs.ErrClosed
	}
	return nil
}

// setAttr changes all attributes but the size, which setSize changes.
func (m *memStore) setAttr(name string, a Attr, follow bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.root.find(name, follow)
	if err != nil {
		return err
	}
	if a.Mode != nil && (n.mode.Type() == fs.ModeSymlink || n == m.root) {
		a.Mode = nil
		if err = rules.ErrLinkAttr; n == m.root {
			err = rules.ErrRoot
		}
	}
	return cmp.Or(err, n.setAttr(a))
}

// setAttr changes the mode and the times. setSize changes the size, and files have no owner here.
// The caller holds the store's mu.
func (n *memNode) setAttr(a Attr) error {
	if a.Mode != nil {
		n.mode = n.mode.Type() | a.Mode.Perm()
	}
	if !a.AccessTime.IsZero() {
		n.accessed = a.AccessTime
	}
	if !a.ModTime.IsZero() {
		n.modified.Store(a.ModTime.UnixNano())
	}
	if a.ChangesOwner() {
		return errors.ErrUnsupported
	}
	return nil
}

// setSize sets the size of the file of that name. It opens the file for writing, as a frozen file
// must be copied.
func (m *memStore) setSize(ctx context.Context, name string, size int64, follow bool) error {
	if fi, err := m.stat(ctx, "setattr", name, follow); err != nil {
		return errors.Unwrap(err)
	} else if fi.Mode().Type() == fs.ModeSymlink {
		return rules.ErrLinkAttr
	}
	h, err := m.openFile(name, Access{Write: true})
	if err != nil {
		return err
	}
	err = h.truncate(size)
	_ = h.Close()
	return err
}

// SetAttr changes attributes: see [Tree]. Files have no owner here.
func (m *memStore) SetAttr(ctx context.Context, name string, a Attr, follow bool) error {
	err := rules.CheckName(ctx, name)
	if err == nil {
		err = a.Check()
	}
	if err == nil {
		if a.Size != nil {
			err = m.setSize(ctx, name, *a.Size, follow)
		}
		err = cmp.Or(err, m.setAttr(name, a, follow))
	}
	if err != nil {
		return memFail("setattr", name, err)
	}
	return nil
}
