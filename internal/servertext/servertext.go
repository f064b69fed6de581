// Package servertext makes text from a server safe to repeat in an error.
package servertext

import (
	"strings"
	"unicode/utf8"
)

// Max is the largest number of bytes of a server's text that are repeated.
const Max = 200

// Cut returns at most [Max] bytes of a text, without newlines at its end. It replaces each
// character by a ? that is not UTF-8, controls a terminal, or changes the direction of the text
// around it.
func Cut(s string) string {
	if len(s) > Max {
		s = s[:Max]
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '?'
		}
		return r
	}, strings.TrimRight(s, "\r\n")))
}
