// Package urlpath writes file names as URL paths, and recognizes URLs that must not be shown because
// they may contain a password.
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

// MayHoldPassword reports whether a URL, with or without its scheme, may contain a password before
// an @. In an invalid URL the password may contain any characters, and the colon before it may be
// written as %3A.
func MayHoldPassword(s string) bool {
	if _, rest, ok := strings.Cut(s, "://"); ok {
		s = rest
	}
	at := strings.LastIndexByte(s, '@')
	return at >= 0 && (strings.Contains(s[:at], ":") || strings.Contains(strings.ToUpper(s[:at]), "%3A"))
}
