package golden

import (
	"strings"
	"testing"

	"github.com/haul-project/haul/internal/console"
)

// Screens are what a program shows on terminals of several sizes.
type Screens struct{ text strings.Builder }

// Add adds a screen. It has to fit the terminal, and nothing in it may control that.
func (s *Screens) Add(t *testing.T, what string, lines func(console.Canvas) []string, columns, rows int) {
	t.Helper()
	s.text.WriteString("--- " + what + "\n")
	all := lines(console.Canvas{Columns: columns, Rows: rows})
	if len(all) > rows {
		t.Errorf("%s: %d lines in %d rows", what, len(all), rows)
	}
	for _, l := range all {
		if n := console.Columns(l); n > columns {
			t.Errorf("%s: %q takes %d columns of %d", what, l, n, columns)
		}
		if plain := strings.ReplaceAll(l, `\`, "/"); plain != console.Visible(plain) {
			t.Errorf("%s: %q can control a terminal", what, l)
		}
		s.text.WriteString(l + "\n")
	}
}

// Compare compares them with a file in testdata.
func (s *Screens) Compare(t *testing.T, name string) {
	t.Helper()
	Compare(t, name, s.text.String())
}
