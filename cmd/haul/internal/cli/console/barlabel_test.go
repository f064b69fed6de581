package console

import (
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
)

// A label fits a narrow terminal, and shows both ends of a long name.
func TestBarLabel(t *testing.T) {
	for _, test := range []struct {
		name    string
		columns int
		want    string
	}{
		{"a/b/c", 80, "c"},
		{"x\x1b[2J", 80, `x\x1b[2J`},
		{"d/large-file-of-a-directory-number-1.bin", 80, "large-file-of-…ry-number-1.bin"},
		{"d/large-file-of-a-directory-number-1.bin", 12, "large…-1.bin"},
		{"d/large-file-of-a-directory-number-1.bin", -5, "lar….bin"},
		{strings.Repeat("é", 40), 80, strings.Repeat("é", 14) + "…" + strings.Repeat("é", 15)},
		{strings.Repeat("字", 40), 80, strings.Repeat("字", 7) + "…" + strings.Repeat("字", 7)},
	} {
		got := BarLabel(test.name, test.columns)
		if got != test.want || runewidth.StringWidth(got) > min(max(test.columns, minLabel), maxLabel) {
			t.Errorf("%q in %d columns is %q, want %q", test.name, test.columns, got, test.want)
		}
	}
}
