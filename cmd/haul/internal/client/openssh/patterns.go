package openssh

import (
	"strings"

	"github.com/haul-project/haul/internal/wildcard"
)

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// matchList matches s with a comma-separated list of patterns.
func matchList(s, list string) bool { return matchAny(s, strings.Split(list, ",")) }

// matchAny matches s with patterns. One that begins with "!" and matches decides: no.
// It does not match anything by itself.
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

// matchHost matches a host name, of which case does not matter, with a list.
func matchHost(host, list string) bool {
	return matchList(strings.ToLower(host), strings.ToLower(list))
}
