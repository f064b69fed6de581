package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// visible returns a name, or other text of strangers, so that it cannot take
// hold of a terminal nor look like another: what is not printable becomes \n, \t,
// \x and the byte, or \u and its number, and a backslash two where that is needed
// to tell.
func visible(s string) string {
	if strings.IndexFunc(s, hidden) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == utf8.RuneError && n == 1, r < utf8.RuneSelf && hidden(r):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r > 0xffff:
			if hidden(r) {
				fmt.Fprintf(&b, `\U%08x`, r)
				break
			}
			b.WriteRune(r)
		case hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += n
	}
	return b.String()
}

// hidden reports whether a character does not show as itself. Besides control
// characters that are those which turn the direction of writing.
func hidden(r rune) bool { return !unicode.IsPrint(r) }

// visibleLines does the same with a message, whose lines stay.
func visibleLines(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return hidden(r) && r != '\n' }) < 0 && utf8.ValidString(s) {
		return s
	}
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = visible(l)
	}
	return strings.Join(lines, "\n")
}

// isTerminal reports whether what is written to w is seen at once.
func isTerminal(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// shown returns how to show names to w: to a terminal they are visible, and a
// program gets them as they are.
func shown(w io.Writer) func(string) string {
	if isTerminal(w) {
		return visible
	}
	return func(name string) string { return name }
}
