package treecopy

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/haul-project/haul/store"
)

// isElement reports whether name is a safe name for an entry of a directory. The listing may come
// from an attacker who wants files to be written elsewhere.
func isElement(name string) bool {
	return name != "." && strings.IndexByte(name, '/') < 0 && store.ValidName(name)
}

// printable returns a name in a form that can be printed. If the name contains bytes that are not
// text or could control a terminal, it is quoted.
func printable(name string) string {
	q := strconv.Quote(name)
	if strings.ContainsRune(q, '\\') || name == "" {
		return q
	}
	return name
}

// cleanName converts a name to the form that package store uses. It also returns whether the name
// ended in a slash or in "/.", and whether it ended in "/.".
func cleanName(name string) (clean string, slash, dot bool, err error) {
	dot = name == "" || name == "." || strings.HasSuffix(name, "/.")
	slash = dot || strings.HasSuffix(name, "/")
	if name == "" {
		return ".", slash, dot, nil
	}
	clean = path.Clean(name)
	switch {
	case strings.HasPrefix(clean, "/"):
		return "", false, false, fmt.Errorf("%w: a name in a tree does not begin with a slash", fs.ErrInvalid)
	case clean == ".." || strings.HasPrefix(clean, "../"):
		return "", false, false, fmt.Errorf("%w: it leads out of the tree", fs.ErrInvalid)
	case strings.IndexByte(clean, 0) >= 0:
		return "", false, false, fmt.Errorf("%w: a NUL in a name", fs.ErrInvalid)
	}
	return clean, slash, dot, nil
}
