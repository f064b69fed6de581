package store

import (
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/haul-project/haul/store/internal/rules"
)

// maxMemLinks is how many symbolic links are followed in one name, as on Linux.
const maxMemLinks = 40

// A memPlace is the place that a name leads to.
type memPlace struct {
	dir  *memNode // the directory; nil if node was reached by "." or ".."
	base string   // the name in dir; with slashes if directories in between are missing
	node *memNode // the node of that name, or nil
}

// walk finds the place that name leads to, in the tree below n. With follow, it follows a symbolic
// link at the end. The caller holds memStore.mu, here and below.
func (n *memNode) walk(name string, follow bool) (memPlace, error) {
	dir, rest, links := n, name, 0
	for {
		elem, after, more := strings.Cut(rest, "/")
		if elem == ".." {
			if dir.parent == nil {
				return memPlace{}, rules.ErrOutside
			}
			dir, elem = dir.parent, "."
		}
		if elem == "." || elem == "" {
			if !more {
				return memPlace{base: ".", node: dir}, nil
			}
			rest = after
			continue
		}
		found := dir.entries[elem]
		switch {
		case found == nil:
			return memPlace{dir: dir, base: rest}, nil
		case found.mode.Type() == fs.ModeSymlink && (more || follow):
			if links++; links > maxMemLinks {
				return memPlace{}, syscall.ELOOP
			}
			if path.IsAbs(found.target) {
				return memPlace{}, rules.ErrOutside
			}
			if rest = found.target; more {
				rest += "/" + after
			}
		case !more:
			return memPlace{dir: dir, base: elem, node: found}, nil
		case !found.mode.IsDir():
			return memPlace{}, fs.ErrNotExist
		default:
			dir, rest = found, after
		}
	}
}

// find returns the node of a name.
func (n *memNode) find(name string, follow bool) (*memNode, error) {
	p, err := n.walk(name, follow)
	if err == nil && p.node == nil {
		err = fs.ErrNotExist
	}
	return p.node, err
}

// regular returns the file of that name.
func (n *memNode) regular(name string) (*memNode, error) {
	found, err := n.find(name, true)
	if err == nil && !found.mode.IsRegular() {
		err = ErrNotRegular
	}
	return found, err
}

// directory returns the directory of that name.
func (n *memNode) directory(name string) (*memNode, error) {
	found, err := n.find(name, true)
	if err == nil && !found.mode.IsDir() {
		err = fs.ErrNotExist
	}
	return found, err
}

// vacant returns the place for a new node of that name, in an existing directory.
func (n *memNode) vacant(name string) (memPlace, error) {
	p, err := n.walk(name, false)
	switch {
	case err != nil:
	case p.node != nil:
		err = fs.ErrExist
	case strings.Contains(p.base, "/"):
		err = fs.ErrNotExist
	}
	return p, err
}

// below reports whether n is dir, or is below it.
func (n *memNode) below(dir *memNode) bool {
	for n != nil && n != dir {
		n = n.parent
	}
	return n != nil
}
