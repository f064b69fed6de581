package localdir

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/internal/rules"
)

var _ store.Tree = (*Dir)(nil)

// Lstat describes a name, without following a symbolic link.
func (d *Dir) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	fi, err := d.lstat(ctx, name)
	if err != nil {
		return nil, d.fail("lstat", name, err)
	}
	return fi, nil
}

// Mkdir makes a directory. If its parent passes its group on (setgid), so does the new one.
func (d *Dir) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	if err := checkNew(ctx, name); err != nil {
		return d.fail("mkdir", name, err)
	}
	if perm = perm.Perm(); perm == 0 {
		perm = 0o755
	}
	if err := d.mkdir(name, perm); err != nil {
		return d.fail("mkdir", name, err)
	}
	return nil
}

// Remove removes a file or a symbolic link.
func (d *Dir) Remove(ctx context.Context, name string) error {
	err := checkOld(ctx, name)
	if err == nil && name == "." {
		err = rules.ErrIsDir
	}
	if err == nil {
		err = d.call("remove", func() error { return d.unlink(name) })
	}
	if err != nil {
		return d.fail("remove", name, err)
	}
	return nil
}

// RemoveDir removes a directory. If it contains only temporary files that uploads left behind, it
// looks empty to users, so RemoveDir removes these files as well. As long as an upload into it is
// under way, the directory stays.
func (d *Dir) RemoveDir(ctx context.Context, name string) error {
	if err := checkMovable(ctx, name); err != nil {
		return d.fail("rmdir", name, err)
	}
	err := d.call("rmdir", func() error { return d.rmdir(name) })
	if errors.Is(err, fs.ErrExist) && d.sweepDir(ctx, name) {
		err = d.call("rmdir", func() error { return d.rmdir(name) })
	}
	if err != nil {
		return d.fail("rmdir", name, err)
	}
	return nil
}

// sweepDir removes the files that uploads left behind in a directory, if it contains no others, and
// reports whether it removed any.
func (d *Dir) sweepDir(ctx context.Context, name string) (removed bool) {
	if onlyTemps, err := d.eachName(ctx, name, isTemp); err != nil || !onlyTemps {
		return false
	}
	s := sweep{store: d, ctx: ctx}
	_, _ = d.eachName(ctx, name, func(base string) bool {
		if gone, err := s.remove(path.Join(name, base)); err == nil && gone {
			removed = true
		}
		return true
	})
	return removed
}

// removeIf removes a file unless it has been changed: see [store.RemoveIf].
func (d *Dir) removeIf(ctx context.Context, name string, was fs.FileInfo) error {
	fi, err := d.lstat(ctx, name)
	if err == nil && fi.IsDir() {
		err = rules.ErrIsDir
	}
	if err == nil {
		err = d.removeUnchanged(name, was)
	}
	if err != nil {
		return d.fail("remove", name, err)
	}
	return nil
}

func (p *pathCalls) removeUnchanged(name string, was fs.FileInfo) error {
	parent, _ := path.Split(name)
	base := tempname.New(tempname.Random(), tempname.Part)
	hidden := parent + base
	dir, _, err := p.openParent(parent, base)
	if err != nil {
		return err
	}
	defer dir.Close()
	// The random name is unused, and this rename is one step on every system.
	if err := p.rename(name, hidden, true); err != nil {
		return err
	}
	fi, err := dir.Lstat(base)
	if err == nil && fi.Mode().Type() == fs.ModeSymlink {
		fi, err = p.root.Stat(hidden)
	}
	if err == nil && os.SameFile(fi, was) && fi.Size() == was.Size() && fi.ModTime().Equal(was.ModTime()) {
		err = p.call("remove", func() error { return p.unlink(hidden) })
		if err == nil || errors.Is(err, fs.ErrNotExist) { // a sweep may have removed it first
			return nil
		}
	} else {
		err = store.ErrChanged
	}
	backErr := p.rename(hidden, name, false)
	if errors.Is(backErr, fs.ErrExist) {
		backErr = p.unlink(hidden)
	}
	return errors.Join(err, backErr)
}

// Rename changes the name from to to: see [store.Tree]. Without replace, Linux never replaces a
// name, even if it is taken at the last moment. The same holds on other systems, and on file
// systems that do not support that, except for directories, which are moved by a check and a
// rename.
func (d *Dir) Rename(ctx context.Context, from, to string, replace bool) error {
	err := checkMovable(ctx, from)
	if err == nil {
		if err = checkNew(ctx, to); err == nil && to == "." {
			err = rules.ErrRoot
		}
	}
	if err == nil {
		err = d.renameError(d.rename(from, to, replace), from, to)
	}
	if err != nil {
		return d.failLink("rename", from, to, err)
	}
	return nil
}

// Link gives a file a second name.
func (d *Dir) Link(ctx context.Context, from, to string) error {
	err := checkOld(ctx, from)
	if err == nil {
		err = checkNew(ctx, to)
	}
	if err == nil {
		err = d.call("link", func() error { return d.root.Link(from, to) })
	}
	if err != nil {
		return d.failLink("link", from, to, err)
	}
	return nil
}

// Symlink makes a symbolic link of that name. It refuses a link to a temporary file, as such names
// are reserved for the store.
func (d *Dir) Symlink(ctx context.Context, target, name string) error {
	err := checkNew(ctx, name)
	if err == nil {
		err = rules.CheckText(target)
	}
	if err == nil && isTemp(filepath.ToSlash(target)) {
		err = rules.ErrReserved
	}
	if err == nil {
		err = d.call("symlink", func() error { return d.root.Symlink(filepath.FromSlash(target), name) })
	}
	if err != nil {
		return d.fail("symlink", name, err)
	}
	return nil
}

// Readlink returns the text of a symbolic link.
func (d *Dir) Readlink(ctx context.Context, name string) (string, error) {
	fi, err := d.lstat(ctx, name)
	if err == nil && fi.Mode().Type() != fs.ModeSymlink {
		err = rules.ErrNotLink
	}
	var target string
	if err == nil {
		target, err = d.root.Readlink(name)
	}
	if err != nil {
		return "", d.fail("readlink", name, err)
	}
	return filepath.ToSlash(target), nil
}

// sub opens a directory of the store as a store of its own. No name and no link leads out of it,
// even if the directory is renamed or replaced. The caller closes it.
func (d *Dir) sub(ctx context.Context, name string) (store.Tree, io.Closer, error) {
	if err := checkOld(ctx, name); err != nil {
		return nil, nil, d.fail("open", name, err)
	}
	// See openParent for the dot.
	root, err := d.root.OpenRoot(name + "/.")
	if err != nil {
		return nil, nil, d.fail("open", name, err)
	}
	sub := New(root)
	sub.SpecialBits, sub.NoSync, sub.LinksFromRoot, sub.Small, sub.Native = d.SpecialBits, d.NoSync, d.LinksFromRoot, d.Small, d.Native
	sub.checkpoint, sub.before = d.checkpoint, d.before
	return sub, root, nil
}

// Capabilities returns all capabilities that a directory supports.
func (d *Dir) Capabilities() store.Capabilities {
	return store.Capabilities{RemoveIf: d.removeIf, Birth: d.birth, Sub: d.sub, RemoveLeftovers: d.removeLeftovers, OpenUpload: d.openUpload}
}

// Space describes the file system that the name is on. It is supported on Linux and macOS.
func (d *Dir) Space(ctx context.Context, name string) (store.Space, error) {
	fi, err := d.stat(ctx, name)
	if err != nil {
		return store.Space{}, d.fail("statvfs", name, err)
	}
	if !fi.IsDir() {
		name = path.Dir(name)
	}
	f, err := d.root.OpenFile(name+"/.", pathOnly|syscall.O_NONBLOCK, 0)
	if err != nil {
		return store.Space{}, d.fail("statvfs", name, err)
	}
	defer f.Close()
	s, err := space(f)
	if err != nil {
		return store.Space{}, d.fail("statvfs", name, err)
	}
	return s, nil
}

// Open opens a regular file for reading. Anything else is [store.ErrNotRegular], and is not even
// opened, since opening a device can start it.
func (d *Dir) Open(ctx context.Context, name string) (store.File, error) {
	f, err := d.open(ctx, name)
	if err != nil {
		return nil, d.fail("open", name, err)
	}
	return f, nil
}

func (d *Dir) open(ctx context.Context, name string) (store.File, error) {
	before, err := d.stat(ctx, name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, store.ErrNotRegular
	}
	if f, ok := d.Small.find(d, name, before); ok {
		return f, nil
	}
	if err := d.hook("open"); err != nil {
		return nil, err
	}
	// The name may have become a pipe by now. Without O_NONBLOCK, opening it would wait for a
	// writer.
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|largeFile, 0)
	if err != nil {
		return nil, err
	}
	fi, err := statRegular(f)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	file, err := d.newFile(f, name, fi)
	if err != nil {
		return nil, err
	}
	return d.Small.add(file, d, name, before, fi), nil
}

// Stat describes a file or a directory. It follows symbolic links.
func (d *Dir) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	fi, err := d.stat(ctx, name)
	if err != nil {
		return nil, d.fail("stat", name, err)
	}
	return fi, nil
}

// Location returns the path by which the file was opened.
func (f *dirFile) Location() store.Location { return f.at.location(f.name) }

// bytesOf returns the number of bytes in n blocks of size, or the largest int64.
func bytesOf(n uint64, size int64) int64 {
	if n > math.MaxInt64/uint64(max(size, 1)) {
		return math.MaxInt64
	}
	return int64(n) * size
}
