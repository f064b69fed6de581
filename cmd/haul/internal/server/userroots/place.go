package userroots

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/haul-project/haul/users"
)

// A place is the location of a user's root. It has two parts, because symbolic links are followed
// only on the way to the tree. They are not followed within the tree, where another user may have
// created links.
type place struct {
	tree string // absolute path without symbolic links; "" means DIR, the served directory
	path string // path in the tree, slash-separated; "." is the tree itself
}

// wholeDir is the place of users whose root is DIR itself.
var wholeDir = place{path: "."}

func (p place) String() string { return filepath.Join(p.tree, filepath.FromSlash(p.path)) }

// place returns the location of a user's root, which is an absolute path or a path below DIR.
func (r *Roots) place(root string) (place, error) {
	if filepath.IsAbs(root) {
		r.mu.Lock()
		trees := r.trees
		r.mu.Unlock()
		return r.resolve(filepath.Clean(root), trees), nil
	}
	if root == "" {
		root = "."
	}
	if root = filepath.Clean(root); !filepath.IsLocal(root) {
		return place{}, fmt.Errorf("the root %s leads out of %s", root, r.dir)
	}
	return place{path: filepath.ToSlash(root)}, nil
}

// maxRootLinks is how many symbolic links are followed on the way to a root. Linux has the same
// limit for a path.
const maxRootLinks = 40

// resolve returns the place of an absolute path. It follows symbolic links until it reaches DIR or
// a tree in trees, and no links after that.
func (r *Roots) resolve(path string, trees map[string]bool) place {
	at, rest := splitRoot(path)
	for links := 0; ; {
		info, err := os.Lstat(at)
		isLink := err == nil && info.Mode()&fs.ModeSymlink != 0
		switch {
		case at == r.dir || err == nil && r.self != nil && os.SameFile(info, r.self):
			return place{path: relative(rest)}
		case trees[at]:
			return place{at, relative(rest)}
		}
		if target, err := os.Readlink(at); isLink && err == nil && links < maxRootLinks {
			links++
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(at), target)
			}
			var more []string
			at, more = splitRoot(filepath.Clean(target))
			rest = slices.Concat(more, rest)
			continue
		}
		if len(rest) == 0 {
			return place{at, "."}
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:]
	}
}

// splitRoot splits a clean absolute path into the root of the file system and the names after it.
func splitRoot(path string) (root string, names []string) {
	root = filepath.VolumeName(path) + string(filepath.Separator)
	if rest := strings.TrimPrefix(path, root); rest != "" {
		names = strings.Split(rest, string(filepath.Separator))
	}
	return root, names
}

func relative(names []string) string {
	if len(names) == 0 {
		return "."
	}
	return strings.Join(names, "/")
}

// Learn records which trees belong to users, so that a link that a user has created in such a tree
// cannot change where another user's root is. Call it whenever the users change.
func (r *Roots) Learn(dir *users.Directory) {
	roots := absoluteRoots(dir)
	// Begin with outer roots: their location decides how an inner root is resolved, but not the
	// reverse.
	slices.SortFunc(roots, func(a, b string) int { return len(a) - len(b) })
	trees := map[string]bool{}
	for _, root := range roots {
		if p := r.resolve(root, trees); p.tree != "" && p.path == "." {
			trees[p.tree] = true
		}
	}
	r.mu.Lock()
	r.trees = trees
	r.mu.Unlock()
}

// absoluteRoots returns the absolute roots of users, without duplicates.
func absoluteRoots(dir *users.Directory) (roots []string) {
	seen := map[string]bool{}
	for _, name := range dir.Names() {
		u, ok := dir.User(name)
		if root := filepath.Clean(u.Root); ok && !u.Disabled && filepath.IsAbs(root) && !seen[root] {
			seen[root] = true
			roots = append(roots, root)
		}
	}
	return roots
}

// places returns the places of the roots outside DIR, without duplicates. The roots are those of the
// users in dir who are not disabled.
func (r *Roots) places(dir *users.Directory) (places []place) {
	seen := map[place]bool{}
	for _, root := range absoluteRoots(dir) {
		if p, err := r.place(root); err == nil && p.tree != "" && !seen[p] {
			seen[p] = true
			places = append(places, p)
		}
	}
	return places
}

// Outside returns the trees outside DIR that contain roots of users, without duplicates.
func (r *Roots) Outside(dir *users.Directory) (trees []string) {
	seen := map[string]bool{}
	for _, p := range r.places(dir) {
		if !seen[p.tree] {
			seen[p.tree] = true
			trees = append(trees, p.tree)
		}
	}
	return trees
}
