package console

import (
	"strings"
	"testing"
)

// Colour does not change the width of a bar.
func TestBar(t *testing.T) {
	for done, want := range map[int64]string{0: "[          ]", 1: "[>         ]", 5: "[====>     ]", 10: "[==========]", 11: "[==========]"} {
		if got := Bar(done, 10, 12, false); got != want {
			t.Errorf("%d of 10: %q, want %q", done, got, want)
		}
		if got := Bar(done, 10, 12, true); strings.NewReplacer("\x1b[32m", "", "\x1b[m", "").Replace(got) != want || done > 0 != strings.Contains(got, "\x1b[32m") {
			t.Errorf("%d of 10 in colour: %q", done, got)
		}
	}
}
