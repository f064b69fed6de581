package store

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/haul-project/haul/internal/tempname"
)

// ErrChanged says that a file is not, or not any more, what it was taken for.
var ErrChanged = errors.New("the file has been replaced or changed")

// A Remover is a [Store] that can remove files, as every [Tree] can.
type Remover interface {
	Store
	Remove(ctx context.Context, name string) error
}

// A conditionalRemover has RemoveIf by a means of its own.
type conditionalRemover interface {
	removeIf(ctx context.Context, name string, was fs.FileInfo) error
}

// RemoveIf removes what has the name if that, or what it leads to as a symbolic link,
// is the file that was describes, with the same size and time of modification; else it
// is [ErrChanged]. The caller has the file open, or another one may get its inode.
//
// POSIX can only remove a name, whatever has it. So a [DirStore] first gives the file
// a hidden name, in one step, then looks which it is, and gives another one its name
// back. For that moment the name is free. If a third file takes it meanwhile, that
// stays, as if it had replaced the other. If the process dies in that moment, or a
// sweep comes in it, the sweep removes the file, whichever it is. A [MemStore] holds its
// lock. Other stores look just before they remove.
func RemoveIf(ctx context.Context, s Remover, name string, was fs.FileInfo) error {
	if c, ok := s.(conditionalRemover); ok {
		return c.removeIf(ctx, name, was)
	}
	fi, err := s.Stat(ctx, name)
	if err != nil {
		return err
	}
	if !alike(fi, was) {
		return &fs.PathError{Op: "remove", Path: name, Err: ErrChanged}
	}
	return s.Remove(ctx, name)
}

// alike reports whether two descriptions are of files with one size and time.
func alike(a, b fs.FileInfo) bool { return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) }

// unchanged reports whether two descriptions are of the same file in the same state.
func unchanged(a, b fs.FileInfo) bool { return SameFile(a, b) && alike(a, b) }

func (d *DirStore) removeIf(ctx context.Context, name string, was fs.FileInfo) error {
	fi, err := d.lstat(ctx, name)
	if err == nil && fi.IsDir() {
		err = errIsDir
	}
	if err == nil {
		err = d.removeUnchanged(name, was)
	}
	if err != nil {
		return d.fail("remove", name, err)
	}
	return nil
}

func (d *DirStore) removeUnchanged(name string, was fs.FileInfo) error {
	parent, _ := path.Split(name)
	base := tempname.New(tempname.Random(), tempname.Part)
	hidden := parent + base
	dir, _, err := d.openParent(parent, base)
	if err != nil {
		return err
	}
	defer dir.Close()
	// Nothing else has the random name, and this rename is one step on every system.
	if err := d.rename(name, hidden, true); err != nil {
		return err
	}
	fi, err := dir.Lstat(base)
	if err == nil && fi.Mode().Type() == fs.ModeSymlink {
		fi, err = d.root.Stat(hidden)
	}
	if err == nil && unchanged(fi, was) {
		err = d.call("remove", func() error { return d.unlink(hidden) })
		if err == nil || errors.Is(err, fs.ErrNotExist) { // a sweep was quicker
			return nil
		}
	} else {
		err = ErrChanged
	}
	backErr := d.rename(hidden, name, false)
	if errors.Is(backErr, fs.ErrExist) {
		backErr = d.unlink(hidden)
	}
	return errors.Join(err, backErr)
}

func (m *MemStore) removeIf(ctx context.Context, name string, was fs.FileInfo) error {
	return m.remove(ctx, "remove", name, func(n *memNode) error {
		if n.mode.IsDir() {
			return errIsDir
		}
		if n, err := m.find(name, true); err != nil || !unchanged(n.info(name), was) {
			return ErrChanged
		}
		return nil
	})
}

func (v visible) removeIf(ctx context.Context, name string, was fs.FileInfo) error {
	if err := v.see("remove", name); err != nil {
		return err
	}
	return RemoveIf(ctx, v.tree, name, was)
}
