package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/glob"
	"github.com/haul-project/haul/store/treecopy"
)

// root opens a local directory, once.
func (r *copyRun) root(dir string) (*os.Root, error) {
	if root := r.roots[dir]; root != nil {
		return root, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, failure.Local.Wrap(err)
	}
	r.roots[dir] = root
	return root, nil
}

// localTarget returns the tree and the name in it that files are copied to. The
// user's own links lead where they lead; below them nothing does.
func (r *copyRun) localTarget(local string, several bool) (store.Tree, string, error) {
	dir, name := local, ""
	if local == "" {
		dir = "."
	}
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		if s := filepath.ToSlash(dir); s == "." || strings.HasSuffix(s, "/") || strings.HasSuffix(s, "/.") {
			name = "./" // sources go below it, even if it is one's unfinished copy
		} else if r.resume && r.recursive && !r.dryRun {
			// If it is, it gets the source's mode, which takes what it is in.
			if tree, name, ok := r.inParent(dir); ok {
				return tree, name, nil
			}
		}
	case several && err == nil:
		return nil, "", failure.Usage.Errorf("several sources need a directory, and %s is none", console.Visible(local))
	default:
		if real, err := filepath.EvalSymlinks(local); err == nil {
			local = real
		}
		dir, name = filepath.Split(strings.TrimRight(filepath.ToSlash(local), "/"))
		if dir = filepath.FromSlash(dir); dir == "" {
			dir = "."
		}
		if several || strings.HasSuffix(filepath.ToSlash(local), "/") {
			name += "/"
		}
	}
	root, err := r.root(dir)
	if err != nil {
		return nil, "", err
	}
	r.targetAt = localAt(dir)
	return store.Dir(root), name, nil
}

// inParent returns a directory as a name in the directory that it is in, if that
// can be opened.
func (r *copyRun) inParent(dir string) (store.Tree, string, bool) {
	real, err := filepath.Abs(dir)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	above, name := filepath.Split(real)
	if err != nil || name == "" {
		return nil, "", false
	}
	root, err := r.root(above)
	if err != nil {
		return nil, "", false
	}
	if clean := filepath.Clean(dir); filepath.Base(clean) == name { // no link: say it as it was typed
		above = filepath.Dir(clean)
	}
	r.targetAt = localAt(above)
	return store.Dir(root), name, true
}

// localSources returns what is to be copied of a local name: a file, what is in
// a directory, or, where no shell has expanded it, what matches a pattern.
func (r *copyRun) localSources(ctx context.Context, file string) ([]treecopy.Source, error) {
	if file == "-" {
		return nil, failure.Usage.Errorf("standard input goes to the server alone, without other files")
	}
	names := []string{file}
	if _, err := os.Lstat(file); errors.Is(err, os.ErrNotExist) && glob.HasMeta(filepath.ToSlash(file)) {
		if names, err = localMatches(ctx, file); err != nil {
			return nil, failure.Local.Errorf("put %s: %w", console.Visible(file), err)
		}
	}
	var all []treecopy.Source
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, failure.Local.Wrap(err)
		}
		if err := r.checkLocal(info); err != nil {
			r.refused = append(r.refused, fmt.Errorf("put %s: %w", console.Visible(name), err))
			continue
		}
		s, err := r.localSource(name)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// checkLocal returns an error for what is not copied.
func (r *copyRun) checkLocal(info fs.FileInfo) error {
	switch {
	case info.IsDir() && !r.recursive:
		return treecopy.ErrDirectory
	case !info.IsDir() && !info.Mode().IsRegular():
		return fmt.Errorf("%w; use - for a stream", store.ErrNotRegular)
	}
	return nil
}

// localSource returns one file or directory. A link is followed, and what it leads to
// is copied under the link's name.
func (r *copyRun) localSource(file string) (treecopy.Source, error) {
	slashed := filepath.ToSlash(file)
	contents := slashed == "." || strings.HasSuffix(slashed, "/.")
	real, err := filepath.EvalSymlinks(file)
	if err != nil {
		return treecopy.Source{}, failure.Local.Wrap(err)
	}
	info, err := os.Stat(real)
	if err != nil {
		return treecopy.Source{}, failure.Local.Wrap(err)
	}
	as := path.Base(path.Clean(slashed))
	if as == ".." || as == "." || as == "/" {
		abs, err := filepath.Abs(file)
		if err != nil {
			return treecopy.Source{}, failure.Local.Wrap(err)
		}
		as = filepath.Base(abs)
	}
	dir, name := filepath.Split(real)
	if info.IsDir() {
		dir, name = real, "."
	}
	if contents || as == string(filepath.Separator) {
		as = ""
	}
	if dir == "" {
		dir = "."
	}
	root, err := r.root(dir)
	if err != nil {
		return treecopy.Source{}, err
	}
	origin, err := filepath.Abs(dir)
	if err != nil {
		return treecopy.Source{}, failure.Local.Wrap(err)
	}
	s := treecopy.Source{Tree: store.Dir(root), Name: name, As: as, Origin: origin}
	r.typed(file, false, s)
	return s, nil
}
