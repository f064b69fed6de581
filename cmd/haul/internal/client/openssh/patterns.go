package openssh

import (
	"strings"

	"github.com/haul-project/haul/internal/wildcard"
)

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// matchList matches s against a comma-separated list of patterns.
func matchList(s, list string) bool { return matchAny(s, strings.Split(list, ",")) }

// matchAny matches s against patterns. If a pattern with "!" matches, the result is false. A
// pattern with "!" that does not match never makes the result true.
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
