package openssh

import "strings"

// matchPattern reports whether s matches a pattern, in which "*" stands for
// any number of bytes and "?" for one.
func matchPattern(s, pattern string) bool {
	// After a mismatch only the last star needs to take more, so the time is
	// bounded by the product of the lengths, whatever the pattern.
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

// matchList matches s with a comma-separated list of patterns. One that begins
// with "!" and matches decides: no. It does not match anything by itself.
func matchList(s, list string) bool {
	matched := false
	for p := range strings.SplitSeq(list, ",") {
		p, negated := strings.CutPrefix(p, "!")
		if p == "" || !matchPattern(s, p) {
			continue
		}
		if negated {
			return false
		}
		matched = true
	}
	return matched
}

// matchHost matches a host name, of which case does not matter, with a list.
func matchHost(host, list string) bool {
	return matchList(strings.ToLower(host), strings.ToLower(list))
}
