// Package userroots opens the directories of users who log in, and makes sure that the server's own
// files are not served.
package userroots

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/users"
)

// rootPerm holds the permissions of a user's directory that is created at the first login. They do
// not allow access by other users of the machine.
const rootPerm = 0o750

// Options says how the files of users are read and written.
type Options struct {
	SpecialBits bool                  // users may set setuid, setgid and sticky bits
	NoSync      bool                  // uploads are published without waiting for the disk
	Small       *localdir.SmallFiles  // keeps small files open for the next reader; may be nil
	Kept        *localdir.KeptUploads // keeps uploads open until they are hashed; may be nil
}

// Roots opens the directories of users. A directory stays open while a connection uses it.
type Roots struct {
	options Options
	main    *os.Root      // DIR, the served directory; nil if DIR is an upstream
	dir     string        // DIR without symbolic links, or the URL of the upstream
	files   store.Tree    // the files of DIR
	local   *localdir.Dir // the same directory as `files`; nil if DIR is an upstream
	secrets []Secret      // files and directories of the server that no user's root may contain
	self    fs.FileInfo   // describes DIR, to recognize it by other paths; nil if DIR is an upstream

	mu    sync.Mutex
	open  map[place]*openRoot // guarded by mu
	trees map[string]bool     // the trees outside DIR that contain roots; the map is never changed, only replaced; guarded by mu
}

// An openRoot is a user's directory that connections are using.
type openRoot struct {
	root   *os.Root
	files  *localdir.Dir
	shared int // number of connections that are using the directory; guarded by Roots.mu
}

// Open opens DIR, the served directory. remote is the upstream that DIR names, or nil if DIR is a
// directory of this machine.
func Open(dir string, remote store.Tree, o Options) (*Roots, error) {
	if remote != nil {
		return &Roots{options: o, dir: dir, files: remote, open: map[place]*openRoot{}}, nil
	}
	if dir == "" {
		return nil, failure.Usage.Errorf("the name of a directory is empty; use . for the current directory")
	}
	main, err := os.OpenRoot(dir)
	if err != nil {
		return nil, failure.Local.Errorf("serve %s: %w", dir, console.WithoutPath(err))
	}
	self, err := main.Stat(".")
	if err != nil {
		_ = main.Close()
		return nil, failure.Local.Errorf("serve %s: %w", dir, console.WithoutPath(err))
	}
	r := &Roots{options: o, main: main, dir: RealPath(dir), self: self, open: map[place]*openRoot{}}
	r.local = r.filesIn(main, wholeDir)
	r.files = r.local
	return r, nil
}

// filesIn returns the files in the open directory root, which is at the place p.
func (r *Roots) filesIn(root *os.Root, p place) *localdir.Dir {
	files := localdir.New(root)
	files.Path = filepath.Join(cmp.Or(p.tree, r.dir), filepath.FromSlash(p.path))
	files.SpecialBits, files.NoSync, files.LinksFromRoot, files.Small, files.Kept = r.options.SpecialBits, r.options.NoSync, true, r.options.Small, r.options.Kept
	return files
}

// MainDir returns DIR, or nothing if DIR is an upstream.
func (r *Roots) MainDir() []string {
	if r.main == nil {
		return nil
	}
	return []string{r.dir}
}

// Close closes all directories.
func (r *Roots) Close() {
	if r.main != nil {
		_ = r.main.Close()
	}
	for _, o := range r.open {
		_ = o.root.Close()
	}
}

// Enter returns a user's files, and a function to call when the session ends. If the user's
// directory below DIR is missing, Enter creates it.
func (r *Roots) Enter(u users.User) (files store.Tree, created bool, leave func(), err error) {
	p, err := r.place(u.Root)
	if err != nil {
		return nil, false, nil, err
	}
	if p == wholeDir {
		return r.files, false, func() {}, nil
	}
	o := r.take(p, nil)
	if o == nil {
		var root *os.Root
		if root, created, err = r.openPlace(p); err != nil {
			return nil, created, nil, err
		}
		o = r.take(p, root)
	}
	return o.files, created, func() { r.give(p) }, nil
}

// take returns the open root of a place, and counts one more connection that uses it. If the place
// has no open root yet, take keeps root, which the caller has just opened. If root is nil too, take
// returns nil.
func (r *Roots) take(p place, root *os.Root) *openRoot {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.open[p]
	switch {
	case o != nil && root != nil: // another connection has opened the directory meanwhile
		_ = root.Close()
	case o == nil && root == nil:
		return nil
	case o == nil:
		o = &openRoot{root: root, files: r.filesIn(root, p)}
		r.open[p] = o
	}
	o.shared++
	return o
}

func (r *Roots) give(p place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.open[p]
	if o.shared--; o.shared == 0 {
		delete(r.open, p)
		_ = o.root.Close()
	}
}

// openPlace opens the directory at a place. It creates a missing directory below DIR.
func (r *Roots) openPlace(p place) (_ *os.Root, created bool, err error) {
	base := r.main
	if p.tree == "" && base == nil {
		return nil, false, r.noRootBelow(p.path)
	}
	if p.tree != "" {
		if err := r.checkApart(p.String()); err != nil {
			return nil, false, err
		}
		if base, err = os.OpenRoot(p.tree); err != nil {
			return nil, false, fmt.Errorf("open %s: %w", p.tree, explainRoot(err))
		}
		defer base.Close()
	}
	root, created, err := openBelow(base, p.path, p.tree == "")
	switch {
	case err == nil:
	case p.tree == "":
		err = fmt.Errorf("open %s below %s: %w", p.path, r.dir, explainRoot(err))
	default:
		err = fmt.Errorf("open %s: %w", p, explainRoot(err))
	}
	return root, created, err
}

// Unopenable returns an error for each root outside DIR that cannot be opened. It ignores roots
// below DIR, because they are created when they are needed.
func (r *Roots) Unopenable(dir *users.Directory) (all []error) {
	for _, p := range r.places(dir) {
		root, _, err := r.openPlace(p)
		if err != nil {
			all = append(all, err)
			continue
		}
		_ = root.Close()
	}
	return all
}

// noRootBelow returns the error for a user's root below an upstream. Such roots are not supported,
// because haul could not keep users from each other's files: symbolic links lead wherever the
// upstream's server allows.
func (r *Roots) noRootBelow(root string) error {
	return fmt.Errorf("the root %s is below %s, which is a source on another machine: there users can have all of it only; leave out the root, or give an absolute path on this machine", root, r.dir)
}

// CheckSource returns an error if a user has a root below an upstream.
func (r *Roots) CheckSource(dir *users.Directory) error {
	for _, name := range dir.Names() {
		u, ok := dir.User(name)
		if p, err := r.place(u.Root); ok && !u.Disabled && r.main == nil && err == nil && p.tree == "" && p != wholeDir {
			return failure.Local.Errorf("user %s: %w", name, r.noRootBelow(u.Root))
		}
	}
	return nil
}

// explainRoot adds advice to the error for a root that cannot be opened.
func explainRoot(err error) error {
	err = console.WithoutPath(err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; make the directory, or correct the users file", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; a root that is not below DIR must be in the users file when haul starts, and the user that haul runs as must have the right to it", err)
	}
	return err
}

// checkApart returns an error if a directory contains a secret of the server.
func (r *Roots) checkApart(path string) error {
	for _, s := range r.secrets {
		if s.isIn(path) {
			return fmt.Errorf("%s holds %s, %s, which its user could read or change; choose another", path, s.What, s.Path)
		}
	}
	return nil
}

// KeepSecret returns an error if DIR or a root of a current user contains a secret. Roots of users
// who are added later are checked when they are opened.
func (r *Roots) KeepSecret(dir *users.Directory, all []Secret) error {
	r.secrets = all
	served := r.Outside(dir)
	if r.main != nil {
		served = append(served, r.dir)
	}
	return CheckApart(served, all)
}

// openBelow opens a directory below `main`, and creates the directory if create is set. It does not
// follow symbolic links. Otherwise, if one user's root was inside another's, the user of the outer
// root could choose the location of the inner root.
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

// FilesPerVisit returns how many descriptors a connection or a request needs in addition to its
// own: none if all users share DIR, otherwise one for the directory of its user. In the worst case,
// all connections belong to different users.
func (r *Roots) FilesPerVisit(dir *users.Directory) int {
	for _, name := range dir.Names() {
		u, ok := dir.User(name)
		if !ok || u.Disabled {
			continue
		}
		if p, err := r.place(u.Root); err == nil && p != wholeDir {
			return 1
		}
	}
	return 0
}

// Sweep removes the leftovers of uploads that a killed server has left in DIR and in the
// directories that `others` lists.
func (r *Roots) Sweep(ctx context.Context, others []string) (removed int, err error) {
	if r.local != nil {
		removed, err = r.local.Sweep(ctx)
	}
	for _, path := range others {
		if ctx.Err() != nil {
			break
		}
		root, openErr := os.OpenRoot(path)
		if openErr != nil {
			continue // this error was logged already: see checkRoots in package sftpd
		}
		n, sweepErr := localdir.New(root).Sweep(ctx)
		removed, err = removed+n, errors.Join(err, sweepErr)
		_ = root.Close()
	}
	return removed, err
}
