// Package wildcard matches text with the patterns of OpenSSH's files: see PATTERNS in
// ssh_config(5).
package wildcard

import "strings"

// Match reports whether s matches a pattern, in which "*" stands for any number of
// bytes and "?" for one.
func Match(pattern, s string) bool {
	// After a mismatch, only the last star needs to match more bytes. So the time is bounded by the
	// product of the lengths, whatever the pattern.
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
