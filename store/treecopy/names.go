package treecopy

import (
	"strconv"
	"strings"

	"github.com/haul-project/haul/store"
)

// isElement reports whether an entry of a directory may have the name. The listing
// may come from an attacker who wants to write somewhere else.
func isElement(name string) bool {
	return name != "." && strings.IndexByte(name, '/') < 0 && store.ValidName(name)
}

// printable returns a name so that it can be shown: if it has bytes in it that
// are no text, or that are orders to a terminal, it is quoted.
func printable(name string) string {
	q := strconv.Quote(name)
	if strings.ContainsRune(q, '\\') || name == "" {
		return q
	}
	return name
}
