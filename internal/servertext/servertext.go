// Package servertext makes text that a server sent safe to show in an error message.
package servertext

import (
	"strings"
	"unicode/utf8"
)

// Max is the largest number of bytes of a server's text that are shown.
const Max = 200

// Cut returns at most the first [Max] bytes of a text, without white space at its beginning and end.
// It replaces by a ? each byte that is not UTF-8, and each character that controls a terminal or
// changes the direction of the text around it.
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
