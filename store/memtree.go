package store

import (
	"context"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/haul-project/haul/store/internal/rules"
)

// Lstat describes a name, without following a symbolic link.
func (m *memStore) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	return m.stat(ctx, "lstat", name, false)
}

// Mkdir makes a directory in an existing directory.
func (m *memStore) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	if perm = perm.Perm(); perm == 0 {
		perm = 0o755
	}
	return m.make(ctx, "mkdir", name, newMemNode(fs.ModeDir|perm))
}

// Symlink makes a symbolic link.
func (m *memStore) Symlink(ctx context.Context, target, name string) error {
	if err := rules.CheckText(target); err != nil {
		return memFail("symlink", name, err)
	}
	n := newMemNode(fs.ModeSymlink | 0o777)
	n.target = target
	return m.make(ctx, "symlink", name, n)
}

// make adds n, which is a directory or a link, under the name.
func (m *memStore) make(ctx context.Context, op, name string, n *memNode) error {
	err := rules.CheckName(ctx, name)
	if err == nil {
		err = m.makeNode(name, n)
	}
	if err != nil {
		return memFail(op, name, err)
	}
	return nil
}

func (m *memStore) makeNode(name string, n *memNode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := m.root.vacant(name)
	if err != nil {
		return err
	}
	if err := m.budget.take(memOverhead + int64(len(n.target))); err != nil {
		return err
	}
	return m.enter(p, n) // charges nothing for directories: the parent exists
}

// Readlink returns the text of a symbolic link.
func (m *memStore) Readlink(ctx context.Context, name string) (string, error) {
	if err := rules.CheckName(ctx, name); err != nil {
		return "", memFail("readlink", name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.root.find(name, false)
	if err == nil && n.mode.Type() != fs.ModeSymlink {
		err = rules.ErrNotLink
	}
	if err != nil {
		return "", memFail("readlink", name, err)
	}
	return n.target, nil
}

// Remove removes a file or a symbolic link.
func (m *memStore) Remove(ctx context.Context, name string) error {
	return m.remove(ctx, "remove", name, func(n *memNode) error {
		if n.mode.IsDir() {
			return rules.ErrIsDir
		}
		return nil
	})
}

// RemoveDir removes an empty directory.
func (m *memStore) RemoveDir(ctx context.Context, name string) error {
	return m.remove(ctx, "rmdir", name, func(n *memNode) error {
		switch {
		case n == m.root:
			return rules.ErrRoot
		case !n.mode.IsDir():
			return fs.ErrNotExist
		case len(n.entries) > 0:
			return fs.ErrExist
		}
		return nil
	})
}

// remove removes a name, unless the function refuse returns an error for the node of that name.
func (m *memStore) remove(ctx context.Context, op, name string, refuse func(*memNode) error) error {
	err := rules.CheckName(ctx, name)
	if err == nil {
		var gone *memFile
		gone, err = m.removeNode(name, refuse)
		gone.drop()
	}
	if err != nil {
		return memFail(op, name, err)
	}
	return nil
}

func (m *memStore) removeNode(name string, refuse func(*memNode) error) (*memFile, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, err := m.root.walk(name, false)
	if err == nil && p.node == nil {
		err = fs.ErrNotExist
	}
	if err == nil {
		err = refuse(p.node)
	}
	if err != nil {
		return nil, err
	}
	delete(p.dir.entries, p.base)
	p.dir.touch()
	return m.forget(p.node), nil
}

// Rename changes a name from "from" to "to", in one step: see [Tree].
func (m *memStore) Rename(ctx context.Context, from, to string, replace bool) error {
	err := checkBoth(ctx, from, to)
	if err == nil && (from == "." || to == ".") {
		err = rules.ErrRoot
	}
	if err == nil {
		var gone *memFile
		gone, err = m.rename(from, to, replace)
		gone.drop()
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

func checkBoth(ctx context.Context, from, to string) error {
	err := rules.CheckName(ctx, from)
	if err == nil {
		err = rules.CheckName(ctx, to)
	}
	return err
}

func (m *memStore) rename(from, to string, replace bool) (gone *memFile, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, err := m.root.walk(from, false)
	if err == nil && old.node == nil {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	p, err := m.root.walk(to, false)
	switch {
	case err != nil:
		return nil, err
	case strings.Contains(p.base, "/"):
		return nil, fs.ErrNotExist
	case old.node.mode.IsDir() && p.dir.below(old.node):
		return nil, fs.ErrInvalid
	case p.node == nil:
	case !replace:
		return nil, fs.ErrExist
	case p.node == old.node:
		return nil, nil
	case old.node.mode.IsDir() != p.node.mode.IsDir(), len(p.node.entries) > 0:
		return nil, fs.ErrExist
	}
	if p.node != nil {
		gone = m.forget(p.node)
	}
	delete(old.dir.entries, old.base)
	old.dir.touch()
	old.node.names--
	return gone, m.enter(p, old.node) // charges nothing for directories: the parent exists
}

// Link gives a file a second name.
func (m *memStore) Link(ctx context.Context, from, to string) error {
	err := checkBoth(ctx, from, to)
	if err == nil {
		err = m.link(from, to)
	}
	if err != nil {
		return &os.LinkError{Op: "link", Old: from, New: to, Err: err}
	}
	return nil
}

func (m *memStore) link(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.root.find(from, false)
	if err != nil {
		return err
	}
	p, err := m.root.vacant(to)
	if err != nil {
		return err
	}
	if n.mode.IsDir() {
		return fs.ErrPermission
	}
	if err := m.budget.take(memOverhead); err != nil {
		return err
	}
	return m.enter(p, n)
}

// Capabilities offers RemoveIf, which compares and removes under the store's lock.
func (m *memStore) Capabilities() Capabilities { return Capabilities{RemoveIf: m.removeIf} }

func (m *memStore) removeIf(ctx context.Context, name string, was fs.FileInfo) error {
	return m.remove(ctx, "remove", name, func(n *memNode) error {
		if n.mode.IsDir() {
			return rules.ErrIsDir
		}
		if n, err := m.root.find(name, true); err != nil || !unchanged(n.info(name), was) {
			return ErrChanged
		}
		return nil
	})
}

// Space returns the memory left below the limit, in units of 512 bytes.
func (m *memStore) Space(ctx context.Context, name string) (Space, error) {
	if _, err := m.stat(ctx, "statvfs", name, true); err != nil {
		return Space{}, err
	}
	total := m.budget.limit / memOverhead
	free := (m.budget.limit - m.budget.used.Load()) / memOverhead
	return Space{
		Total: total * memOverhead, Free: free * memOverhead, Available: free * memOverhead,
		BlockSize: memOverhead,
		Files:     total, FreeFiles: free, AvailableFiles: free,
		MaxName: rules.MaxName,
	}, nil
}

// OpenDir opens a directory that is listed in pieces. Next returns the names that existed at
// OpenDir, except for those that have been removed since.
func (m *memStore) OpenDir(ctx context.Context, name string) (Entries, error) {
	err := rules.CheckName(ctx, name)
	if err == nil {
		var e *memEntries
		if e, err = m.openDir(name); err == nil {
			e.ctx = ctx
			return e, nil
		}
	}
	return nil, memFail("opendir", name, err)
}

func (m *memStore) openDir(name string) (*memEntries, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.root.directory(name)
	if err != nil {
		return nil, err
	}
	e := &memEntries{store: m, name: name, dir: dir}
	e.charged = int64(len(dir.entries)) * memEntry
	if err := m.budget.take(e.charged); err != nil {
		return nil, err
	}
	e.names = make([]string, 0, len(dir.entries))
	for base := range dir.entries {
		e.names = append(e.names, base)
	}
	return e, nil
}

// A memEntries is an open directory.
type memEntries struct {
	store   *memStore
	ctx     context.Context // the context of OpenDir
	name    string
	dir     *memNode
	names   []string // names not listed yet; guarded by store.mu
	charged int64    // bytes charged for names; guarded by store.mu
	closed  bool     // Close was called; guarded by store.mu
}

func (e *memEntries) Next(into []fs.FileInfo) (n int, err error) {
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	if err = e.ctx.Err(); err == nil && e.closed {
		err = fs.ErrClosed
	}
	if err != nil {
		return 0, memFail("readdir", e.name, err)
	}
	for n < len(into) && len(e.names) > 0 {
		base := e.names[0]
		e.names = e.names[1:]
		if node := e.dir.entries[base]; node != nil {
			into[n] = node.info(base)
			n++
		}
	}
	if n == 0 && len(into) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (e *memEntries) Close() error {
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	if e.closed {
		return memFail("close", e.name, fs.ErrClosed)
	}
	e.closed, e.names = true, nil
	e.store.budget.give(e.charged)
	return nil
}
