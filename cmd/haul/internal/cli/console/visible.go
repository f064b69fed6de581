// Package console formats text for people to read on a terminal: names that strangers have chosen,
// in a form that is safe to print; sizes, rates and times; and columns. It does not depend on
// protocols.
package console

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// Visible escapes a name or another text from a stranger, so that it cannot control a terminal, and
// cannot look like another name. A character that is not printable becomes \n, \t, \x and the byte,
// or \u and its number. If anything was escaped, backslashes are doubled, so that the result is
// unambiguous.
func Visible(s string) string {
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

// hidden reports whether a character must be escaped. That is so for control characters, and for
// characters that change the direction of text.
func hidden(r rune) bool { return !unicode.IsPrint(r) }

// VisibleLines escapes a message as [Visible] does, but keeps line breaks.
func VisibleLines(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return hidden(r) && r != '\n' }) < 0 && utf8.ValidString(s) {
		return s
	}
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = Visible(l)
	}
	return strings.Join(lines, "\n")
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// NameFormat returns the function that formats names for output to w. If w is a terminal, the
// function is [Visible]. Otherwise it returns names unchanged, because a program may read them.
func NameFormat(w io.Writer) func(string) string {
	if IsTerminal(w) {
		return Visible
	}
	return func(name string) string { return name }
}

// WithoutPath returns the cause of an [fs.PathError], for messages that name the operation and the
// path themselves. It returns other errors unchanged.
func WithoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
