//go:build !haul_portable

package localdir

import (
	"errors"
	"path"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/store/internal/rules"
)

// at opens the directory of name, without leaving the root, and calls f with that directory and the
// last element of name.
func (p *pathCalls) at(name string, f func(dir int, base string) error) error {
	dir, err := p.root.OpenFile(path.Dir(name)+"/.", pathOnly, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		err := f(int(dir.Fd()), path.Base(name))
		if err != unix.EINTR {
			return err
		}
	}
}

// unlink removes a file or a link. For a directory it returns an error.
func (p *pathCalls) unlink(name string) error {
	err := p.at(name, func(dir int, base string) error { return unix.Unlinkat(dir, base, 0) })
	if err == unix.EISDIR {
		return rules.ErrIsDir
	}
	return err
}

// rmdir removes an empty directory.
func (p *pathCalls) rmdir(name string) error {
	return p.at(name, func(dir int, base string) error { return unix.Unlinkat(dir, base, unix.AT_REMOVEDIR) })
}

// rename renames in one step or, if the file system does not support RENAME_NOREPLACE, in several.
func (p *pathCalls) rename(from, to string, replace bool) error {
	var flags uint
	if !replace {
		flags = unix.RENAME_NOREPLACE
	}
	err := p.at(from, func(fromDir int, fromBase string) error {
		return p.at(to, func(toDir int, toBase string) error {
			return p.call("rename", func() error { return unix.Renameat2(fromDir, fromBase, toDir, toBase, flags) })
		})
	})
	if !replace && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS)) {
		return p.renamePortably(from, to, replace)
	}
	return err
}

// lutimes sets the times of a name, without following a symbolic link.
func (p *pathCalls) lutimes(name string, atime, mtime time.Time) error {
	ts, err := timespecs(atime, mtime)
	if err != nil {
		return err
	}
	return p.at(name, func(dir int, base string) error {
		return unix.UtimesNanoAt(dir, base, ts[:], unix.AT_SYMLINK_NOFOLLOW)
	})
}
