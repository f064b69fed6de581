package servertext

import (
	"strings"
	"testing"
)

// Cut returns a text without line breaks, and without characters that move the cursor of a terminal
// or change the text direction.
func TestCut(t *testing.T) {
	for in, want := range map[string]string{
		"no such key\r\n":              "no such key",
		" a\nb\x1b[31m\x7f\u009b ":     "a?b?[31m??",
		"\u202egnp.exe\u2066\xff é":    "?gnp.exe?? é",
		strings.Repeat("x", 2*Max):     strings.Repeat("x", Max),
		strings.Repeat("\n", 2*Max):    "",
		"a" + strings.Repeat("é", Max): "a" + strings.Repeat("é", Max/2-1) + "?",
	} {
		if got := Cut(in); got != want {
			t.Errorf("Cut(%q) = %q, want %q", in, got, want)
		}
	}
}
