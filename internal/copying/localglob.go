package copying

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/glob"
)

// localMatches returns the local names that a pattern matches.
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

// localNames are the files of this machine, by names that come behind a prefix.
// Symbolic links lead where they lead, as the user expects of their own.
type localNames string

func (l localNames) path(name string) string { return filepath.FromSlash(string(l) + name) }

// Stat describes a file, or what a symbolic link leads to.
func (l localNames) Stat(_ context.Context, name string) (fs.FileInfo, error) {
	return os.Stat(l.path(name))
}

// Lstat describes a file, or a symbolic link.
func (l localNames) Lstat(_ context.Context, name string) (fs.FileInfo, error) {
	return os.Lstat(l.path(name))
}

// OpenDir lists a directory. With the dot the system opens nothing else: to open a
// named pipe might wait for ever.
func (l localNames) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	root, err := os.OpenRoot(l.path(name + "/."))
	if errors.Is(err, syscall.ENOTDIR) {
		err = &fs.PathError{Op: "opendir", Path: l.path(name), Err: fs.ErrNotExist}
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return store.Dir(root).OpenDir(ctx, ".")
}
