package site

import "testing"

// A ? matches every character that becomes several in the form `spelled`.
func TestSpellings(t *testing.T) {
	for r := range rune(0x40000) { // Unicode folds nothing after that
		s := []rune(spelled.of(string(r)))
		if len(s) > longestSpelling || len(s) > 1 && !isCharacter(s) {
			t.Errorf("%U is spelled %+q, which is not known to be a character", r, string(s))
		}
	}
}
