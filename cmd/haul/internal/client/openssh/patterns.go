package openssh

import (
	"strings"

	"github.com/haul-project/haul/internal/wildcard"
)

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// matchList reports whether s matches a comma-separated list of patterns, as [matchAny] does.
func matchList(s, list string) bool { return matchAny(s, strings.Split(list, ",")) }

// matchAny reports whether s matches one of the patterns and no pattern that begins with "!". If s
// fails to match a pattern with "!", that alone is not a match.
func matchAny(s string, patterns []string) bool {
	matched := false
	for _, p := range patterns {
		p, negated := strings.CutPrefix(p, "!")
		if p == "" || !wildcard.Match(p, s) {
			continue
		}
		if negated {
			return false
		}
		matched = true
	}
	return matched
}

// matchHost matches a host name against a list, ignoring case.
func matchHost(host, list string) bool {
	return matchList(strings.ToLower(host), strings.ToLower(list))
}
