package store

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/haul-project/haul/store/internal/rules"
)

// ValidName reports whether a name is valid for a [Store]. A valid name is either ".", the root, or
// a list of elements separated by slashes. No element is empty, "." or "..", or contains a NUL.
// Unlike [io/fs.ValidPath], ValidName allows all other bytes, as Unix file systems do. A store may
// still refuse a valid name; a directory on Windows or macOS, for example, refuses names that are
// not UTF-8.
func ValidName(name string) bool { return rules.ValidName(name) }

// CleanName turns a name from a client into a name of a [Store]. It removes leading and doubled
// slashes and "." elements, and treats backslashes, which Windows boot loaders send, as slashes.
// For a name that leads above the root it returns an error that wraps [fs.ErrPermission], and for a
// name without elements, such as "/", an error that wraps [ErrNotRegular].
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
