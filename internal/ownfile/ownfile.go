// Package ownfile opens the files of this process, such as logs, locks and recordings, in
// directories where other users may create files too, such as /tmp.
package ownfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"syscall"
)

// everybody is the permission bit that lets everybody write to a file.
const everybody = 0o002

// Open opens a file as [os.OpenFile] does, but refuses one that another user may have put there. It
// refuses symbolic links, files that are not regular, files with a second name, files that
// everybody may write to, and files that are not [Ours]. If flag has os.O_TRUNC, Open truncates the
// file only after these checks. A new file is not writable for everybody.
func Open(path string, flag int, perm fs.FileMode, owners ...int) (*os.File, error) {
	if flag&os.O_CREATE != 0 {
		// A new file needs no checks. On some file systems it does not get its owner or its mode.
		f, err := os.OpenFile(path, flag|os.O_EXCL|noFollow, perm&^everybody)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
	// Without O_NONBLOCK, opening a pipe would wait for its other end.
	f, err := os.OpenFile(path, flag&^os.O_TRUNC|syscall.O_NONBLOCK|noFollow, perm&^everybody)
	if err != nil {
		if info, failed := os.Lstat(path); failed == nil && info.Mode()&fs.ModeSymlink != 0 {
			return nil, fmt.Errorf("open %s: it is a symbolic link; name the file that it leads to", path)
		}
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = checkFile(path, info, owners)
	}
	if err == nil && flag&os.O_TRUNC != 0 {
		err = f.Truncate(0)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// Create opens a file for output and truncates it, like [os.Create], with the checks of [Open]. It
// also opens a pipe or a device, such as /dev/stdout, if that and the links to it are [Ours].
func Create(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() && Check(path) == nil {
		return os.OpenFile(path, os.O_WRONLY, 0)
	}
	return Open(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
}

func checkFile(path string, info fs.FileInfo, owners []int) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("open %s: it is not a regular file; name another one", path)
	}
	if _, names, ok := OwnerOf(info); ok && names > 1 {
		return fmt.Errorf("open %s: it has %d names (hard links), so it may be another program's file; remove this name, or name another file", path, names)
	}
	return check(path, info, owners)
}

func check(path string, info fs.FileInfo, owners []int) error {
	if !Ours(info, owners...) {
		uid, _, _ := OwnerOf(info)
		return fmt.Errorf("open %s: it belongs to user %d, who can change it; remove it, or name another one", path, uid)
	}
	// Only regular files are checked. Directories that are container volumes are often writable for
	// everybody, and the mode of a symbolic link always says that it is.
	if perm := info.Mode().Perm(); perm&everybody != 0 && info.Mode().IsRegular() && runtime.GOOS != "windows" {
		return fmt.Errorf("open %s: everybody may write to it (mode %04o); chmod o-w %s", path, perm, path)
	}
	return nil
}

// Ours reports whether a file belongs to this process's user, to root or to one of the owners. On
// Windows files have no such owner, and the result is true.
func Ours(info fs.FileInfo, owners ...int) bool {
	uid, _, ok := OwnerOf(info)
	return !ok || uid == 0 || uid == os.Geteuid() || slices.Contains(owners, uid)
}

// Check returns an error if a file or directory is not [Ours], or if it is a regular file that
// everybody may write to. The path may be a symbolic link that is ours. Check returns nil if there
// is nothing at the path yet.
func Check(path string, owners ...int) error {
	for _, look := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
		info, err := look(path)
		if err == nil {
			err = check(path, info, owners)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
