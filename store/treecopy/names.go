package treecopy

import (
	"strconv"
	"strings"
)

// printable returns a name so that it can be shown: if it has bytes in it that
// are no text, or that are orders to a terminal, it is quoted.
func printable(name string) string {
	q := strconv.Quote(name)
	if strings.ContainsRune(q, '\\') || name == "" {
		return q
	}
	return name
}
