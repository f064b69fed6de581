// Package urlpath writes file names as URL paths.
package urlpath

import "strings"

// Append appends a slash-separated name as the path of a URL. It escapes all bytes except
// unreserved characters and slashes (RFC 3986 §2.3, §3.3).
func Append(b []byte, name string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~/", c) >= 0:
			b = append(b, c)
		default:
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return b
}
