package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
)

// rootPerm are the permissions of a user's directory that is made when he first
// logs in: it is his, and other users of the machine have no business there.
const rootPerm = 0o750

// sftpRoots are the directories that users get. Each is open as long as somebody
// is connected who has it.
type sftpRoots struct {
	main    *os.Root // of DIR
	dir     string   // DIR, without symbolic links
	files   *store.DirStore
	secrets []string // what no root may hold, without symbolic links

	mu   sync.Mutex
	open map[string]*sftpRoot // mu: by where they are
}

// An sftpRoot is a directory that somebody has.
type sftpRoot struct {
	root   *os.Root
	files  *store.DirStore
	shared int // mu of sftpRoots: by how many connections
}

// openSFTPRoots opens DIR.
func openSFTPRoots(dir string) (*sftpRoots, error) {
	if dir == "" {
		return nil, usagef("the name of a directory is empty; write . for the one you are in")
	}
	main, err := os.OpenRoot(dir)
	if err != nil {
		return nil, localError{fmt.Errorf("serve %s: %w", dir, unwrapPath(err))}
	}
	return &sftpRoots{main: main, dir: settledPath(dir), files: store.Dir(main), open: map[string]*sftpRoot{}}, nil
}

func (r *sftpRoots) close() {
	_ = r.main.Close()
	for _, o := range r.open {
		_ = o.root.Close()
	}
}

// A place is where a root is: below DIR, or else anywhere.
type place struct {
	path  string // below DIR it is slash-separated, and "." is DIR
	below bool
}

// place returns where a user's root is.
func (r *sftpRoots) place(root string) (place, error) {
	if !filepath.IsAbs(root) {
		if root == "" {
			root = "."
		}
		if root = filepath.Clean(root); !filepath.IsLocal(root) {
			return place{}, fmt.Errorf("the root %s leads out of %s", root, r.dir)
		}
		return place{filepath.ToSlash(root), true}, nil
	}
	path := settledPath(root)
	if rel, err := filepath.Rel(r.dir, path); err == nil && filepath.IsLocal(rel) {
		return place{filepath.ToSlash(rel), true}, nil
	}
	return place{path, false}, nil
}

// enter returns a user's files, and what is to be called when he is gone. A
// directory below DIR that is missing is made for a user who may write there.
func (r *sftpRoots) enter(u users.User) (files store.Tree, created bool, leave func(), err error) {
	p, err := r.place(u.Root)
	if err != nil {
		return nil, false, nil, err
	}
	if p == (place{".", true}) {
		return r.files, false, func() {}, nil
	}
	o := r.take(p.path, nil)
	if o == nil {
		var root *os.Root
		if root, created, err = r.openPlace(p, u.Access != users.ReadOnly); err != nil {
			return nil, created, nil, err
		}
		o = r.take(p.path, root)
	}
	return o.files, created, func() { r.give(p.path) }, nil
}

// take counts one more who has a root. If it is not open, root is what was opened
// for it; without that there is none to take. (A relative path and an absolute
// one cannot be the same.)
func (r *sftpRoots) take(path string, root *os.Root) *sftpRoot {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.open[path]
	switch {
	case o != nil && root != nil: // somebody else was faster
		_ = root.Close()
	case o == nil && root == nil:
		return nil
	case o == nil:
		o = &sftpRoot{root: root, files: store.Dir(root)}
		r.open[path] = o
	}
	o.shared++
	return o
}

func (r *sftpRoots) give(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.open[path]
	if o.shared--; o.shared == 0 {
		delete(r.open, path)
		_ = o.root.Close()
	}
}

// openPlace opens the directory of a user.
func (r *sftpRoots) openPlace(p place, create bool) (_ *os.Root, created bool, err error) {
	if p.below {
		root, created, err := openBelow(r.main, p.path, create)
		if err != nil {
			err = fmt.Errorf("open %s below %s: %w", p.path, r.dir, explainRoot(err))
		}
		return root, created, err
	}
	if err := r.checkApart(p.path); err != nil {
		return nil, false, err
	}
	root, err := os.OpenRoot(p.path)
	if err != nil {
		return nil, false, fmt.Errorf("open %s: %w", p.path, explainRoot(unwrapPath(err)))
	}
	return root, false, nil
}

// explainRoot says what to do about a root that cannot be opened.
func explainRoot(err error) error {
	err = unwrapPath(err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; make the directory, or correct the users file", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; a root that is not below DIR must be in the users file when haul starts, and the user that haul runs as must have the right to it", err)
	}
	return err
}

// checkApart refuses a directory that holds what nobody may read.
func (r *sftpRoots) checkApart(path string) error {
	for _, s := range r.secrets {
		if within(s, path) {
			return fmt.Errorf("%s holds %s, which its user could read or change; choose another", path, s)
		}
	}
	return nil
}

// openBelow opens a directory below another, and makes it if it shall. It follows
// no symbolic link: of roots in each other, the user of the outer one could
// otherwise choose what the inner one is.
func openBelow(main *os.Root, name string, create bool) (_ *os.Root, created bool, err error) {
	dir, err := main.OpenRoot(".")
	for part := range strings.SplitSeq(name, "/") {
		if err != nil {
			return nil, created, err
		}
		var next *os.Root
		var made bool
		next, made, err = openChild(dir, part, create)
		created = created || made
		_ = dir.Close()
		dir = next
	}
	if err != nil {
		return nil, created, err
	}
	return dir, created, nil
}

func openChild(dir *os.Root, name string, create bool) (_ *os.Root, created bool, err error) {
	info, err := dir.Lstat(name)
	if create && errors.Is(err, fs.ErrNotExist) {
		if err = dir.Mkdir(name, rootPerm); err == nil || errors.Is(err, fs.ErrExist) {
			created = err == nil
			info, err = dir.Lstat(name)
		}
	}
	if err != nil {
		return nil, created, err
	}
	if !info.IsDir() {
		return nil, created, fmt.Errorf("%s is not a directory, and links are not followed there", name)
	}
	root, err := dir.OpenRoot(name)
	if err != nil {
		return nil, created, err
	}
	now, err := root.Stat(".")
	if err == nil && !os.SameFile(info, now) {
		err = fmt.Errorf("%s was replaced just now", name)
	}
	if err != nil {
		_ = root.Close()
		return nil, created, err
	}
	return root, created, nil
}

// filesPerVisit returns how many descriptors a connection or a request takes beyond
// its own: that of its user's directory, unless all have DIR. They may all be of
// different users, or come to be when the users file changes.
func (r *sftpRoots) filesPerVisit(dir *users.Directory) int {
	for _, name := range dir.Names() {
		u, ok := dir.User(name)
		if !ok || u.Disabled {
			continue
		}
		if p, err := r.place(u.Root); err == nil && p != (place{".", true}) {
			return 1
		}
	}
	return 0
}

// outside returns the roots of users that are not below DIR, each once.
func (r *sftpRoots) outside(dir *users.Directory) []string {
	var paths []string
	seen := map[string]bool{}
	for _, name := range dir.Names() {
		u, ok := dir.User(name)
		if !ok || u.Disabled || !filepath.IsAbs(u.Root) {
			continue
		}
		p, err := r.place(u.Root)
		if err == nil && !p.below && !seen[p.path] {
			seen[p.path] = true
			paths = append(paths, p.path)
		}
	}
	return paths
}

// sweep removes what uploads of a killed server left behind in DIR and in some
// other directories.
func (r *sftpRoots) sweep(ctx context.Context, others []string) (removed int, err error) {
	removed, err = r.files.Sweep(ctx)
	for _, path := range others {
		if ctx.Err() != nil {
			break
		}
		root, openErr := os.OpenRoot(path)
		if openErr != nil {
			continue // told already: see checkRoots
		}
		n, sweepErr := store.Dir(root).Sweep(ctx)
		removed, err = removed+n, errors.Join(err, sweepErr)
		_ = root.Close()
	}
	return removed, err
}
