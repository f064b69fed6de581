// Package screentest is for tests. It checks the output of a program on terminals of several sizes,
// and compares it with a file in testdata.
package screentest

import (
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/internal/golden"
)

// Screens collects a program's output on terminals of several sizes.
type Screens struct{ text strings.Builder }

// Add adds a screen of the given size with the title `what`. The test fails if the lines do not
// fit, or contain control characters.
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

// Compare compares all added screens with the file `name` in testdata. The test fails if they
// differ.
func (s *Screens) Compare(t *testing.T, name string) {
	t.Helper()
	golden.Compare(t, name, s.text.String())
}
