package console

import (
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
)

// TERM=dumb forbids everything that moves the cursor, and NO_COLOR all escape sequences.
func TestScreenModes(t *testing.T) {
	_, terminal := servetest.OpenTerminal(t)
	for _, c := range []struct {
		term, noColor string
		want          screenMode
	}{
		{"xterm", "", full}, {"", "", full}, {"dumb", "", plain}, {"dumb", "1", plain}, {"xterm", "1", oneLine},
	} {
		env := map[string]string{"TERM": c.term, "NO_COLOR": c.noColor}
		if got := modeOf(terminal, func(name string) string { return env[name] }); got != c.want {
			t.Errorf("TERM=%s NO_COLOR=%s: mode %d, want %d", c.term, c.noColor, got, c.want)
		}
	}
}
