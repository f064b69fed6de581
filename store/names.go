package store

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/haul-project/haul/store/internal/rules"
)

// ValidName reports whether a name is one of a [Store]: elements with slashes
// between, none of them empty, "." or "..", and no NUL in it; or ".", the root.
// Unlike [io/fs.ValidPath] it takes any other bytes, as file systems of Unix do. A
// store may refuse a name that is valid, as one in a directory of Windows or macOS
// refuses what is not UTF-8.
func ValidName(name string) bool { return rules.ValidName(name) }

// CleanName turns a name as a client sends it into one of a [Store]: leading
// and doubled slashes and "." go, and backslashes, which Windows loaders send,
// count as slashes. A name that climbs out of the root is refused and not bent:
// the error wraps [fs.ErrPermission]. One that names nothing, such as "/",
// wraps [ErrNotRegular].
func CleanName(name string) (string, error) {
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '\\' })
	kept := parts[:0]
	for _, p := range parts {
		switch p {
		case ".":
		case "..":
			return "", fmt.Errorf("%q leads out of the root: %w", name, fs.ErrPermission)
		default:
			kept = append(kept, p)
		}
	}
	if len(kept) == 0 {
		return "", fmt.Errorf("%q names no file: %w", name, ErrNotRegular)
	}
	return strings.Join(kept, "/"), nil
}
