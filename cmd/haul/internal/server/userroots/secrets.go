package userroots

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// A Secret is a file or a directory of the server that clients must neither read nor change, over
// any protocol.
type Secret struct {
	Flag    failure.Flag // the setting that names the file
	What    string
	Path    string
	Instead error // how to run without the file; nil if there is no way
}

// CheckApart returns an error if a served directory contains a secret.
func CheckApart(served []string, all []Secret) error {
	for _, dir := range served {
		for _, s := range all {
			if s.isIn(RealPath(dir)) {
				return s.refuse(dir)
			}
		}
	}
	return nil
}

// refuse returns the error for a secret in a served directory.
func (s Secret) refuse(dir string) error {
	const text = "%s %s: %s would be in %s, which is served, so that clients could read or change it; choose a place outside, or serve only the directories below that are needed"
	if s.Instead == nil {
		return failure.Mistake(s.Flag, text, s.Flag, s.Path, s.What, dir)
	}
	return failure.Mistake(s.Flag, text+"; %w", s.Flag, s.Path, s.What, dir, s.Instead)
}

// isIn reports whether a secret is in dir, or is reached through a symbolic link in dir. Such a
// link counts because a client that replaced it could choose another secret. The path dir must not
// contain symbolic links.
func (s Secret) isIn(dir string) bool {
	return Within(RealPath(s.Path), dir) ||
		slices.ContainsFunc(linksTo(s.Path), func(link string) bool { return Within(link, dir) })
}

// linksTo returns the paths of the symbolic links that are followed on the way to a path. It
// follows at most maxRootLinks links.
func linksTo(path string) (links []string) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil
	}
	at, rest := splitRoot(absolute)
	for len(rest) > 0 && len(links) < maxRootLinks {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		target, err := os.Readlink(next)
		if err != nil { // next is not a symbolic link
			at = next
			continue
		}
		links = append(links, next)
		more := strings.Split(filepath.ToSlash(target), "/")
		if filepath.IsAbs(target) {
			// Do not clean the target: which directory ".." means depends on the links before it.
			volume := filepath.VolumeName(target)
			at = volume + string(filepath.Separator)
			more = strings.Split(filepath.ToSlash(target[len(volume):]), "/")
		}
		rest = slices.Concat(more, rest)
	}
	return links
}

// RealPath resolves the symbolic links in a path. The last parts of the path need not exist.
func RealPath(path string) string {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	for dir, rest := absolute, ""; ; {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		rest = filepath.Join(filepath.Base(dir), rest)
		parent := filepath.Dir(dir)
		if parent == dir {
			return absolute
		}
		dir = parent
	}
}

// Within reports whether a path is dir, or is below it.
func Within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
