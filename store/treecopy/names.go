package treecopy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// unsafeName returns an error unless an entry of a directory may have the name.
// Whoever made the listing may want to be written somewhere else.
func unsafeName(name string) error {
	switch {
	case name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00"):
		return ErrUnsafeName
	case !utf8.ValidString(name):
		return fmt.Errorf("%w, as it is not UTF-8", ErrUnsafeName)
	}
	return nil
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
