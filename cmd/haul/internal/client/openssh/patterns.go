package openssh

import (
	"strings"

	"github.com/haul-project/haul/internal/wildcard"
)

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// matchList reports whether s matches a comma-separated list of patterns, as [matchAny] does.
func matchList(s, list string) bool { return matchAny(s, strings.Split(list, ",")) }

// matchAny reports whether s matches a pattern without "!" in front, and no pattern with "!" in
// front. So a list that has only patterns with "!" never matches.
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
