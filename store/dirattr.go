package store

import (
	"context"
	"io/fs"
	"os"
)

// specialBits are the bits of a mode that give a file or a directory powers
// beyond those of its permission bits.
const specialBits = fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// newMode returns the mode for what fi describes when a client wants another.
// Without SpecialBits, a directory keeps its special bits: they are how an
// administrator shares it with a group. A file loses them.
func (d *DirStore) newMode(fi fs.FileInfo, want fs.FileMode) fs.FileMode {
	switch {
	case d.SpecialBits:
		return want & (fs.ModePerm | specialBits)
	case fi.IsDir():
		return want.Perm() | fi.Mode()&specialBits
	}
	return want.Perm()
}

// owner returns the numbers for chown(2), which leaves what is -1.
func (a Attr) owner() (uid, gid int) {
	uid, gid = -1, -1
	if a.UID != nil {
		uid = int(*a.UID)
	}
	if a.GID != nil {
		gid = int(*a.GID)
	}
	return uid, gid
}

// SetAttr changes what a says: see [Tree]. Of a symbolic link itself Linux
// changes the times; other systems do not.
func (d *DirStore) SetAttr(ctx context.Context, name string, a Attr, follow bool) error {
	if err := d.setAttr(ctx, name, a, follow); err != nil {
		return d.fail("setattr", name, err)
	}
	return nil
}

func (d *DirStore) setAttr(ctx context.Context, name string, a Attr, follow bool) error {
	if err := a.check(); err != nil {
		return err
	}
	look := d.lstat
	if follow {
		look = d.stat
	}
	fi, err := look(ctx, name)
	switch {
	case err != nil:
		return err
	case fi.Mode().Type() == fs.ModeSymlink:
		return d.setLinkAttr(name, a)
	case a.Size != nil:
		h, err := d.openFile(ctx, name, Access{Write: true})
		if err != nil {
			return err
		}
		err = h.setAttr(a)
		if closeErr := h.file.Close(); err == nil {
			err = closeErr
		}
		return err
	case (a.Mode != nil || a.owned()) && d.isRoot(fi):
		return errRoot
	}
	return d.setPathAttr(name, a)
}

// isRoot reports whether fi describes the root, by whatever name.
func (d *DirStore) isRoot(fi fs.FileInfo) bool {
	if !fi.IsDir() {
		return false
	}
	root, err := d.root.Lstat(".")
	return err == nil && os.SameFile(fi, root)
}

// setPathAttr changes what name leads to without opening it: that could be a
// pipe, or a file that this process may change but not write.
func (d *DirStore) setPathAttr(name string, a Attr) error {
	if a.owned() {
		uid, gid := a.owner()
		if err := d.call("chown", func() error { return d.root.Chown(name, uid, gid) }); err != nil {
			return err
		}
	}
	if a.Mode != nil {
		fi, err := d.root.Stat(name) // chown may have taken bits away
		if err == nil {
			err = d.call("chmod", func() error { return d.root.Chmod(name, d.newMode(fi, *a.Mode)) })
		}
		if err != nil {
			return err
		}
	}
	if a.timed() {
		return d.call("chtimes", func() error { return d.root.Chtimes(name, a.AccessTime, a.ModTime) })
	}
	return nil
}

// setLinkAttr changes a symbolic link itself.
func (d *DirStore) setLinkAttr(name string, a Attr) error {
	if a.Size != nil || a.Mode != nil {
		return errLinkAttr
	}
	if a.owned() {
		uid, gid := a.owner()
		if err := d.call("chown", func() error { return d.root.Lchown(name, uid, gid) }); err != nil {
			return err
		}
	}
	if a.timed() {
		return d.call("chtimes", func() error { return d.lutimes(name, a.AccessTime, a.ModTime) })
	}
	return nil
}
