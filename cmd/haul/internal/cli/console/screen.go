package console

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// A screenMode is what a [Screen] may do.
type screenMode int

const (
	plain   screenMode = iota // no terminal, or one that cannot move its cursor: nothing that changes
	oneLine                   // one line, that a carriage return begins anew: no escape sequences
	full                      // several lines, and colour
)

// A descriptor is a file, or what writes to one.
type descriptor interface{ Fd() uintptr }

// modeOf returns what may be done on out. NO_COLOR forbids every escape sequence, and
// TERM=dumb what moves the cursor as well.
func modeOf(out io.Writer, getenv func(string) string) screenMode {
	f, ok := out.(descriptor)
	switch {
	case !ok || !term.IsTerminal(int(f.Fd())) || getenv("TERM") == "dumb":
		return plain
	case getenv("NO_COLOR") != "" || !takesEscapes(f.Fd()):
		return oneLine
	}
	return full
}

// A Screen shows lines that change below others that stay, at the bottom of a terminal.
type Screen struct {
	mode screenMode
	size func() (columns, rows int)

	mu     sync.Mutex
	out    io.Writer // mu
	shown  []string  // mu: what is there now
	asking int       // mu: questions that are open
}

// NewScreen returns a screen on out. Nothing changes on it unless live is set.
func NewScreen(out io.Writer, live bool) *Screen {
	s := &Screen{out: out}
	if live {
		s.mode = modeOf(out, os.Getenv)
	}
	if s.mode != plain {
		fd := int(out.(descriptor).Fd())
		s.size = func() (columns, rows int) {
			columns, rows, _ = term.GetSize(fd) // 0 if that is not known
			return cmp.Or(columns, 80), cmp.Or(rows, 24)
		}
	}
	return s
}

// Live reports whether lines can change.
func (s *Screen) Live() bool { return s.mode != plain }

// ManyLines reports whether several lines can change.
func (s *Screen) ManyLines() bool { return s.mode == full }

// A Canvas is what lines have to fit in.
type Canvas struct {
	Columns, Rows int
	Color         bool
}

// Draw replaces the lines that change. lines makes them; those that do not fit break the
// display. While somebody is asked for something nothing is drawn.
func (s *Screen) Draw(lines func(Canvas) []string) {
	if !s.Live() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asking > 0 {
		return
	}
	columns, rows := s.size()
	c := Canvas{Columns: max(columns-1, 1), Rows: max(rows-1, 1), Color: s.mode == full} // in the last column some terminals begin a new line
	if s.mode == oneLine {
		c.Rows = 1
	}
	s.replace(lines(c), columns)
}

// Printf prints lines that stay, above those that change.
func (s *Screen) Printf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.shown
	columns := s.clear()
	fmt.Fprintf(s.out, format, args...)
	if len(was) > 0 {
		s.replace(was, columns)
	}
}

// Clear takes away the lines that change.
func (s *Screen) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
}

// Pause takes away the lines that change until resume is called, for a question.
func (s *Screen) Pause() (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	s.asking++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asking--
	})
}

// clear takes away what is shown, and returns how wide the terminal is. The caller holds
// mu.
func (s *Screen) clear() (columns int) {
	if len(s.shown) == 0 {
		return 0
	}
	columns, _ = s.size()
	s.replace(nil, columns)
	return columns
}

// replace writes lines over those that are shown. The caller holds mu.
func (s *Screen) replace(lines []string, columns int) {
	frame := nextFrame
	if s.mode == oneLine {
		frame = nextLine
	}
	_, _ = io.WriteString(s.out, frame(s.shown, lines, columns)) // who reads it is gone, or sees the next one
	s.shown = lines
}

// nextFrame returns what replaces lines by others. The cursor is at the begin of the line
// below them. Where the terminal has become narrower, it has wrapped the old ones.
func nextFrame(old, lines []string, columns int) string {
	var b strings.Builder
	up := 0
	for _, l := range old {
		up += max((Columns(withoutColor(l))+columns-1)/columns, 1)
	}
	if up > 0 {
		fmt.Fprintf(&b, "\r\x1b[%dA", up)
	}
	for _, l := range lines {
		b.WriteString(l + "\x1b[K\n")
	}
	if len(old) > 0 {
		b.WriteString("\x1b[J")
	}
	return b.String()
}

// nextLine does so for one line at most, without escape sequences. The cursor is at its
// end.
func nextLine(old, lines []string, columns int) string {
	width, text := 0, strings.Join(lines, "")
	if len(old) > 0 {
		width = min(Columns(old[0]), max(columns-1, 0))
	}
	line := "\r" + Pad(text, width)
	if text == "" {
		line += "\r"
	}
	return line
}

// green begins the part of a line that is done, and plainText ends it.
const green, plainText = "\x1b[32m", "\x1b[m"

// Green returns a text in green.
func Green(text string) string { return green + text + plainText }

// withoutColor returns a line without what [Green] adds.
func withoutColor(line string) string {
	return strings.NewReplacer(green, "", plainText, "").Replace(line)
}
