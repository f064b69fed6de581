package store

import (
	"context"
	"errors"
	"io/fs"

	"github.com/haul-project/haul/store/internal/rules"
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
	RemoveIf(ctx context.Context, name string, was fs.FileInfo) error
}

// RemoveIf removes what has the name if that, or what it leads to as a symbolic link,
// is the file that was describes, with the same size and time of modification; else it
// is [ErrChanged]. The caller has the file open, or another one may get its inode.
//
// POSIX can only remove a name, whatever has it. So a localdir.Dir first gives the file
// a hidden name, in one step, then looks which it is, and gives another one its name
// back. For that moment the name is free. If a third file takes it meanwhile, that
// stays, as if it had replaced the other. If the process dies in that moment, or a
// sweep comes in it, the sweep removes the file, whichever it is. A [MemStore] holds its
// lock. Other stores look just before they remove.
func RemoveIf(ctx context.Context, s Remover, name string, was fs.FileInfo) error {
	if c, ok := s.(conditionalRemover); ok {
		return c.RemoveIf(ctx, name, was)
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

// RemoveIf does what the function of that name says.
func (m *MemStore) RemoveIf(ctx context.Context, name string, was fs.FileInfo) error {
	return m.remove(ctx, "remove", name, func(n *memNode) error {
		if n.mode.IsDir() {
			return rules.ErrIsDir
		}
		if n, err := m.find(name, true); err != nil || !unchanged(n.info(name), was) {
			return ErrChanged
		}
		return nil
	})
}

func (v visible) RemoveIf(ctx context.Context, name string, was fs.FileInfo) error {
	if err := v.see("remove", name); err != nil {
		return err
	}
	return RemoveIf(ctx, v.tree, name, was)
}
