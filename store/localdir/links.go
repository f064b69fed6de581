package localdir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/haul-project/haul/store/internal/rules"
)

const (
	// maxLinks is the largest number of symbolic links that are followed in one name.
	maxLinks = 40

	// maxSteps is the largest number of elements that are looked up for one name, including the
	// elements in the texts of links. Each lookup walks down from the root again.
	maxSteps = 256
)

// try calls f with a name. If that fails because the name leads through an absolute link, try calls
// f again with the resolved name. `final` says that f follows a link at the end of the name.
func (r dirRoot) try(name string, final bool, f func(name string) error) error {
	err := f(name)
	if err == nil || !r.store.LinksFromRoot || !errors.Is(err, r.store.escape) && !errors.Is(err, syscall.ELOOP) {
		return err
	}
	meant, resolveErr := r.resolve(name, final)
	switch {
	case resolveErr == rules.ErrOutside || meant == name:
		return err
	case resolveErr != nil:
		return &fs.PathError{Op: "resolve", Path: name, Err: resolveErr}
	}
	return f(meant)
}

// resolve returns a name without links that leads to the same file as name. Elements that do not
// exist are left unchanged. A "/." at the end, which requires a directory, is kept.
func (r dirRoot) resolve(name string, final bool) (string, error) {
	at, links := "", 0
	rest, dot := strings.CutSuffix(name, "/.")
	for steps := 0; rest != ""; steps++ {
		if steps == maxSteps {
			return "", syscall.ELOOP
		}
		element, after, more := strings.Cut(rest, "/")
		rest = after
		switch element {
		case "", ".":
			continue
		case "..":
			if at == "" {
				return "", rules.ErrOutside
			}
			at = at[:max(0, strings.LastIndexByte(at, '/'))]
			continue
		}
		next := strings.TrimPrefix(at+"/"+element, "/")
		link := ""
		if more || final || dot {
			link, _ = r.Root.Readlink(next) // empty if next is not a link; the error does not matter
		}
		if link == "" {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", syscall.ELOOP
		}
		link, absolute, err := linkText(link)
		if err != nil {
			return "", err
		}
		if absolute {
			at = ""
		}
		rest = link + "/" + rest
	}
	switch {
	case isTemp(at):
		return "", fs.ErrNotExist
	case at == "":
		at = "."
	}
	if dot {
		at += "/."
	}
	return at, nil
}

// linkText returns the text of a symbolic link as a name, and reports whether it starts at the
// root. For a text that starts with a Windows volume it returns an error, because such a link leads
// out of the store.
func linkText(link string) (name string, absolute bool, err error) {
	if filepath.VolumeName(link) != "" {
		return "", false, rules.ErrOutside
	}
	link = filepath.ToSlash(link)
	name = strings.TrimLeft(link, "/")
	return name, name != link, nil
}

func (r dirRoot) Stat(name string) (fi fs.FileInfo, err error) {
	err = r.try(name, true, func(name string) (err error) { fi, err = r.Root.Stat(name); return err })
	return fi, err
}

func (r dirRoot) Lstat(name string) (fi fs.FileInfo, err error) {
	err = r.try(name, false, func(name string) (err error) { fi, err = r.Root.Lstat(name); return err })
	return fi, err
}

func (r dirRoot) OpenFile(name string, flag int, perm fs.FileMode) (f *os.File, err error) {
	err = r.try(name, true, func(name string) (err error) { f, err = r.Root.OpenFile(name, flag, perm); return err })
	return f, err
}

func (r dirRoot) OpenRoot(name string) (root *os.Root, err error) {
	err = r.try(name, true, func(name string) (err error) { root, err = r.Root.OpenRoot(name); return err })
	return root, err
}

func (r dirRoot) directory(name string) (directory, error) {
	root, err := r.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	return root, nil
}

func (r dirRoot) bare() directory { return r.Root }

func (r dirRoot) Readlink(name string) (text string, err error) {
	err = r.try(name, false, func(name string) (err error) { text, err = r.Root.Readlink(name); return err })
	return text, err
}

func (r dirRoot) Mkdir(name string, perm fs.FileMode) error {
	return r.try(name, false, func(name string) error { return r.Root.Mkdir(name, perm) })
}

func (r dirRoot) Remove(name string) error { return r.try(name, false, r.Root.Remove) }

func (r dirRoot) Symlink(target, name string) error {
	return r.try(name, false, func(name string) error { return r.Root.Symlink(target, name) })
}

func (r dirRoot) Rename(from, to string) error { return r.tryBoth(from, to, r.Root.Rename) }
func (r dirRoot) Link(from, to string) error   { return r.tryBoth(from, to, r.Root.Link) }

func (r dirRoot) tryBoth(from, to string, f func(from, to string) error) error {
	return r.try(from, false, func(from string) error {
		return r.try(to, false, func(to string) error { return f(from, to) })
	})
}

func (r dirRoot) Chmod(name string, mode fs.FileMode) error {
	return r.try(name, true, func(name string) error { return r.Root.Chmod(name, mode) })
}

func (r dirRoot) Chown(name string, uid, gid int) error {
	return r.try(name, true, func(name string) error { return r.Root.Chown(name, uid, gid) })
}

func (r dirRoot) Lchown(name string, uid, gid int) error {
	return r.try(name, false, func(name string) error { return r.Root.Lchown(name, uid, gid) })
}

func (r dirRoot) Chtimes(name string, atime, mtime time.Time) error {
	return r.try(name, true, func(name string) error { return r.Root.Chtimes(name, atime, mtime) })
}

func (p *pathCalls) stat(ctx context.Context, name string) (fs.FileInfo, error) {
	if err := rules.CheckName(ctx, name); err != nil {
		return nil, err
	}
	if isTemp(name) {
		return nil, fs.ErrNotExist
	}
	return p.root.Stat(name)
}

func (p *pathCalls) lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	if err := checkOld(ctx, name); err != nil {
		return nil, err
	}
	return p.root.Lstat(name)
}

// renamePortably renames with calls that exist on every system.
func (p *pathCalls) renamePortably(from, to string, replace bool) error {
	rename := func() error {
		return p.call("rename", func() error { return p.root.Rename(from, to) })
	}
	if replace {
		return rename()
	}
	// Link fails if the name is taken, even if that happens at the last moment. If the process dies
	// between Link and the removal, the file has two names, but nothing is lost.
	err := p.call("link", func() error { return p.root.Link(from, to) })
	switch {
	case err == nil:
		err = p.call("remove", func() error { return p.unlink(from) })
		if err != nil {
			_ = p.unlink(to)
		}
		return err
	case errors.Is(err, fs.ErrNotExist):
		return err
	}
	if _, statErr := p.root.Lstat(to); statErr == nil {
		return fs.ErrExist
	} else if !errors.Is(statErr, fs.ErrNotExist) {
		return statErr
	}
	return rename() // it is a directory, or the file system has no hard links
}

// renameError adds to the error of a rename the kind of error that package store documents.
func (p *pathCalls) renameError(err error, from, to string) error {
	err = reason(err)
	switch {
	case errors.Is(err, syscall.EINVAL): // a directory cannot be moved below itself
		return rules.WithKind(err, fs.ErrInvalid)
	case errors.Is(err, syscall.EISDIR): // a file cannot replace a directory
		return rules.WithKind(err, fs.ErrExist)
	case errors.Is(err, syscall.ENOTDIR):
		// A directory cannot replace a file, or one of the names leads through a file.
		_, fromErr := p.root.Lstat(from)
		_, toErr := p.root.Lstat(to)
		if fromErr == nil && toErr == nil {
			return rules.WithKind(err, fs.ErrExist)
		}
	}
	return err
}

func (d *Dir) mkdir(name string, perm fs.FileMode) error {
	err := d.call("mkdir", func() error { return d.root.Mkdir(name, perm) })
	if err != nil {
		return err
	}
	fi, err := d.root.Lstat(name)
	// If the umask has removed some bits of perm, set them.
	if err == nil && fi.Mode().Perm() != perm && !d.Native && runtime.GOOS != "windows" {
		err = d.call("chmod", func() error { return d.root.Chmod(name, newMode(fi, perm, d.SpecialBits)) })
	}
	if err != nil {
		_ = d.rmdir(name)
	}
	return err
}
