package copying

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/internal/glob"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/store/treecopy"
)

// localFiles opens the local directories that a copy reads or writes, each of them once.
type localFiles struct {
	*Config
	roots map[string]*os.Root // the open directories, by path
}

// close closes the directories.
func (f *localFiles) close() {
	for _, root := range f.roots {
		_ = root.Close()
	}
}

// localAt returns a function that turns a name in a local directory into the name that a user could
// type.
func localAt(dir string) func(name string) string {
	if dir = filepath.Clean(dir); dir == "." {
		return filepath.FromSlash
	}
	dir = strings.TrimSuffix(dir, string(filepath.Separator)) + string(filepath.Separator)
	return func(name string) string { return dir + filepath.FromSlash(name) }
}

// root opens a local directory, or returns it if it is open already.
func (f *localFiles) root(dir string) (*os.Root, error) {
	if root := f.roots[dir]; root != nil {
		return root, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, failure.Local.Wrap(err)
	}
	f.roots[dir] = root
	return root, nil
}

// A localPlace is a name in a local directory.
type localPlace struct {
	tree *localdir.Dir
	name string
	at   func(name string) string // turns a name in tree into a name that a user could type
}

// target returns the place that files are copied to: a tree and a name in it. Symbolic links in the
// name that the user typed are followed; links below that name are not.
func (f *localFiles) target(local string, several bool) (localPlace, error) {
	dir, name := local, ""
	if local == "" {
		dir = "."
	}
	info, err := os.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		if s := filepath.ToSlash(dir); s == "." || strings.HasSuffix(s, "/") || strings.HasSuffix(s, "/.") {
			name = "./" // copy into the directory, even if it contains the checkpoint of an earlier copy
		} else if f.Continue && f.Recursive && !f.DryRun {
			// Setting the mode of a resumed directory requires the tree of its parent directory.
			if p, ok := f.inParent(dir); ok {
				return p, nil
			}
		}
	case several && err == nil:
		return localPlace{}, failure.Usage.Errorf("several sources need a directory, and %s is none", console.Visible(local))
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
	root, err := f.root(dir)
	if err != nil {
		return localPlace{}, err
	}
	return localPlace{localdir.New(root), name, localAt(dir)}, nil
}

// inParent returns the place of a directory in the tree of its parent directory. It returns false
// if the parent cannot be opened.
func (f *localFiles) inParent(dir string) (localPlace, bool) {
	real, err := filepath.Abs(dir)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	above, name := filepath.Split(real)
	if err != nil || name == "" {
		return localPlace{}, false
	}
	root, err := f.root(above)
	if err != nil {
		return localPlace{}, false
	}
	if clean := filepath.Clean(dir); filepath.Base(clean) == name { // dir is no symbolic link: show it as typed
		above = filepath.Dir(clean)
	}
	return localPlace{localdir.New(root), name, localAt(above)}, true
}

// A localSource is a file or directory to copy, and its name as the user typed it or as a pattern
// matched it.
type localSource struct {
	treecopy.Source
	text string
}

// A refusedSource is a local source that is not copied, for example a directory without -r. err is
// the reason.
type refusedSource struct {
	name string // name of the source as the user typed it
	mode fs.FileMode
	err  error
}

// sources returns the sources for a local name, which is a file, a directory, or a pattern that no
// shell has expanded. refused lists the matches that are not copied.
func (f *localFiles) sources(ctx context.Context, file string) (all []localSource, refused []refusedSource, err error) {
	if file == "-" {
		return nil, nil, failure.Usage.Errorf("standard input goes to the server alone, without other files")
	}
	names := []string{file}
	if _, err := os.Lstat(file); errors.Is(err, os.ErrNotExist) && glob.HasMeta(filepath.ToSlash(file)) {
		if names, err = localMatches(ctx, file); err != nil {
			return nil, nil, failure.Local.Errorf("put %s: %w", console.Visible(file), err)
		}
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, nil, failure.Local.Wrap(err)
		}
		if err := f.check(info); err != nil {
			refused = append(refused, refusedSource{name, info.Mode(), fmt.Errorf("put %s: %w", console.Visible(name), err)})
			continue
		}
		s, err := f.source(name)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, localSource{s, name})
	}
	return all, refused, nil
}

// check returns an error if a file must not be copied, for example a directory without -r.
func (f *localFiles) check(info fs.FileInfo) error {
	switch {
	case info.IsDir() && !f.Recursive:
		return treecopy.ErrDirectory
	case !info.IsDir() && !info.Mode().IsRegular():
		return fmt.Errorf("%w; use - for a stream", store.ErrNotRegular)
	}
	return nil
}

// source returns the source for one file or directory. If the name is a symbolic link, the link's
// target is copied under the link's name.
func (f *localFiles) source(file string) (treecopy.Source, error) {
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
	root, err := f.root(dir)
	if err != nil {
		return treecopy.Source{}, err
	}
	origin, err := filepath.Abs(dir)
	if err != nil {
		return treecopy.Source{}, failure.Local.Wrap(err)
	}
	return treecopy.Source{Tree: localdir.New(root), Name: name, As: as, Origin: origin}, nil
}

// localMatches returns the local names that match a pattern.
func localMatches(ctx context.Context, pattern string) ([]string, error) {
	volume := filepath.VolumeName(pattern)
	pattern = filepath.ToSlash(pattern[len(volume):])
	above := localNames(volume)
	if rest := strings.TrimLeft(pattern, "/"); rest != pattern {
		above, pattern = above+"/", rest
	}
	found, err := glob.Expand(ctx, above, pattern)
	names := make([]string, len(found))
	for i, m := range found {
		names[i] = above.path(m.Name)
	}
	return names, err
}

// localNames is a prefix of paths. It gives access to the files of this machine whose paths begin
// with the prefix, by the rest of their paths. Symbolic links are followed, as users expect on
// their own machine.
type localNames string

func (l localNames) path(name string) string { return filepath.FromSlash(string(l) + name) }

// Stat describes a file, or the target of a symbolic link.
func (l localNames) Stat(_ context.Context, name string) (fs.FileInfo, error) {
	return os.Stat(l.path(name))
}

// Lstat describes a file, or a symbolic link itself.
func (l localNames) Lstat(_ context.Context, name string) (fs.FileInfo, error) {
	return os.Lstat(l.path(name))
}

// OpenDir lists a directory. The trailing dot makes the system refuse anything but a directory,
// because opening a named pipe might block forever.
func (l localNames) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	root, err := os.OpenRoot(l.path(name + "/."))
	if errors.Is(err, syscall.ENOTDIR) {
		err = &fs.PathError{Op: "opendir", Path: l.path(name), Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return localdir.New(root).OpenDir(ctx, ".")
}
