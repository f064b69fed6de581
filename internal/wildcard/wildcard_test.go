package wildcard_test

import (
	"strings"
	"testing"

	"github.com/haul-project/haul/internal/wildcard"
)

func TestMatch(t *testing.T) {
	for _, test := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"**", "abc", true}, {"?", "", false}, {"?", "a", true},
		{"a*", "a", true}, {"a*b", "ab", true}, {"a*b", "axxb", true}, {"a*b", "axxbc", false}, {"*b*", "abc", true},
		{"a*b*c", "aXbYbZc", true}, {"a?c", "abc", true}, {"a?c", "ac", false}, {"*?", "", false}, {"*?", "x", true},
	} {
		if got := wildcard.Match(test.pattern, test.s); got != test.want {
			t.Errorf("%q against %q: %v", test.pattern, test.s, got)
		}
	}
	// If each * doubled the work, this would take longer than the age of the universe.
	if wildcard.Match(strings.Repeat("a*", 60)+"b", strings.Repeat("a", 2000)) {
		t.Error("matches")
	}
}
