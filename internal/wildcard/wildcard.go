// Package wildcard matches text against the patterns in OpenSSH's files: see PATTERNS in
// ssh_config(5).
package wildcard

import "strings"

// Match reports whether s matches a pattern, in which "*" stands for any number of bytes, including
// zero, and "?" for one byte.
func Match(pattern, s string) bool {
	// After a mismatch, it is enough to try again with more bytes for the last star before it. So the
	// time is bounded by the product of the lengths, whatever the pattern.
	i, p, star, mark := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			i, p = i+1, p+1
		case star >= 0:
			mark++
			i, p = mark, star+1
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
