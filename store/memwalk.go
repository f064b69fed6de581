package store

import (
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/haul-project/haul/store/internal/rules"
)

// maxMemLinks is the number of symbolic links that are followed in one name; Linux has the same
// limit.
const maxMemLinks = 40

// A memPlace is a position in the tree, which may be free.
type memPlace struct {
	dir  *memNode // directory that contains the position; nil if the name ended in "." or ".."
	base string   // name of the position in dir; contains slashes if directories below dir are missing
	node *memNode // node at the position; nil if the position is free
}

// walk follows name through the tree that starts at directory n. With follow, it also follows a
// symbolic link at the end of the name. The caller holds memStore.mu, here and in the functions
// below.
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

// find returns the node of a name, or fs.ErrNotExist.
func (n *memNode) find(name string, follow bool) (*memNode, error) {
	p, err := n.walk(name, follow)
	if err == nil && p.node == nil {
		err = fs.ErrNotExist
	}
	return p.node, err
}

// regular returns the regular file of that name. For anything else it returns ErrNotRegular.
func (n *memNode) regular(name string) (*memNode, error) {
	found, err := n.find(name, true)
	if err == nil && !found.mode.IsRegular() {
		err = ErrNotRegular
	}
	return found, err
}

// directory returns the directory of that name. For anything else it returns fs.ErrNotExist.
func (n *memNode) directory(name string) (*memNode, error) {
	found, err := n.find(name, true)
	if err == nil && !found.mode.IsDir() {
		err = fs.ErrNotExist
	}
	return found, err
}

// vacant returns the position for a new node of that name. It returns an error if the name is
// taken, or if its directory does not exist.
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

// below reports whether n is dir itself or lies somewhere below it.
func (n *memNode) below(dir *memNode) bool {
	for n != nil && n != dir {
		n = n.parent
	}
	return n != nil
}
