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

// Mkdir makes a directory. If its parent directory has the setgid bit, the new one gets its group
// and that bit.
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

// RemoveDir removes a directory. A directory that contains only temporary files of dead uploads
// looks empty to users, so RemoveDir removes these files too. If an upload into the directory is in
// progress, the directory stays, and RemoveDir fails.
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

// sweepDir removes the temporary files of dead uploads from a directory that contains no other
// files, and reports whether it removed any.
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

// removeIf removes a file if it is still the file that `was` describes: see [store.RemoveIf].
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
	// The random name is not in use, and this rename is a single step on every system.
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

// Rename changes a name from "from" to "to": see [store.Tree]. Without replace, Linux never
// replaces an existing file, even if the name is taken at the last moment. Other systems, and file
// systems without support for that, give the same guarantee, except for directories: for these,
// Rename checks that the name is free and then renames, in two steps.
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

// Symlink creates a symbolic link of that name. It refuses a link to the name of a temporary file,
// as such names are reserved for the store.
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

// sub opens a directory of the store as a separate store. No name and no link leads out of it, even
// if the directory is renamed or replaced. The caller closes it.
func (d *Dir) sub(ctx context.Context, name string) (store.Tree, io.Closer, error) {
	if err := checkOld(ctx, name); err != nil {
		return nil, nil, d.fail("open", name, err)
	}
	// See openParent for the reason for "/.".
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

// Space returns the size and the free space of the file system that the name is on. It works on
// Linux and macOS.
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

// Open opens a regular file for reading. For anything else it returns [store.ErrNotRegular] without
// even opening it, since opening a device can have effects.
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
	// By now the name may belong to a pipe. Without O_NONBLOCK, opening it would wait for a writer.
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

// bytesOf returns the number of bytes in n blocks of size bytes, at most math.MaxInt64.
func bytesOf(n uint64, size int64) int64 {
	if n > math.MaxInt64/uint64(max(size, 1)) {
		return math.MaxInt64
	}
	return int64(n) * size
}
