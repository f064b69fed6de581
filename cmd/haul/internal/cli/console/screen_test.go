package console

import (
	"bytes"
	"strings"
	"testing"
)

// Without a terminal nothing is redrawn, whatever the environment says, and output is unchanged.
func TestScreenWithoutTerminal(t *testing.T) {
	var out bytes.Buffer
	s := NewScreen(&out, true)
	if s.Live() {
		t.Error("it can draw")
	}
	s.Draw(func(Canvas) []string { return []string{"a line"} })
	s.Printf("%s\n", "text")
	s.Pause()()
	s.Clear()
	if got := out.String(); got != "text\n" {
		t.Errorf("%q", got)
	}
}

// Frames replace each other, even if they differ in height, and even if the terminal has become
// narrower and has wrapped lines.
func TestFrames(t *testing.T) {
	for _, c := range []struct {
		old, lines []string
		columns    int
		want       string
	}{
		{nil, []string{"a", "b"}, 80, "a\x1b[K\nb\x1b[K\n"},
		{[]string{"a", "b"}, []string{"c"}, 80, "\r\x1b[2Ac\x1b[K\n\x1b[J"},
		{[]string{"a", "b"}, nil, 80, "\r\x1b[2A\x1b[J"},
		{[]string{strings.Repeat("x", 21), ""}, []string{"c"}, 10, "\r\x1b[4Ac\x1b[K\n\x1b[J"},
		{[]string{Green(strings.Repeat("字", 5))}, nil, 10, "\r\x1b[1A\x1b[J"},
	} {
		if got := nextFrame(c.old, c.lines, c.columns); got != c.want {
			t.Errorf("%q after %q in %d columns: %q, want %q", c.lines, c.old, c.columns, got, c.want)
		}
	}
}

// One line replaces another without an escape sequence.
func TestLinesWithoutEscapes(t *testing.T) {
	for _, c := range []struct {
		old, lines []string
		want       string
	}{
		{nil, []string{"abc"}, "\rabc"},
		{[]string{"abc"}, []string{"d"}, "\rd  "},
		{[]string{"abc"}, nil, "\r   \r"},
		{[]string{strings.Repeat("x", 30)}, nil, "\r" + strings.Repeat(" ", 9) + "\r"}, // the terminal was wider
	} {
		if got := nextLine(c.old, c.lines, 10); got != c.want {
			t.Errorf("%q after %q: %q, want %q", c.lines, c.old, got, c.want)
		}
	}
}
