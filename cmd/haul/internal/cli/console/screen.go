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

// A screenMode says whether and how a [Screen] redraws lines.
type screenMode int

const (
	// plain redraws nothing: the output is not a terminal, or the terminal cannot move its cursor.
	plain   screenMode = iota
	oneLine            // one line is redrawn after a carriage return, without escape sequences
	full               // several lines are redrawn, with colour
)

// A descriptor is a file, or a writer that writes to a file.
type descriptor interface{ Fd() uintptr }

// modeOf returns the mode for output to out. NO_COLOR forbids all escape sequences, and TERM=dumb
// also forbids moving the cursor.
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

// A Screen shows lines at the bottom of a terminal, and redraws them when they change. Above them,
// Printf prints other lines, which stay.
type Screen struct {
	mode screenMode
	size func() (columns, rows int) // returns the size of the terminal; nil if mode is plain

	mu     sync.Mutex
	out    io.Writer // guarded by mu
	shown  []string  // guarded by mu: the redrawn lines that are on the terminal now
	asking int       // guarded by mu: the number of open questions to the user; see Pause
}

// NewScreen returns a screen on out. The screen redraws lines only if live is set and out is a
// terminal.
func NewScreen(out io.Writer, live bool) *Screen {
	s := &Screen{out: out}
	if live {
		s.mode = modeOf(out, os.Getenv)
	}
	if s.mode != plain {
		fd := int(out.(descriptor).Fd())
		s.size = func() (columns, rows int) {
			columns, rows, _ = term.GetSize(fd) // 0 means that the size is unknown
			return cmp.Or(columns, 80), cmp.Or(rows, 24)
		}
	}
	return s
}

// Live reports whether lines can be redrawn.
func (s *Screen) Live() bool { return s.mode != plain }

// ManyLines reports whether several lines can be redrawn.
func (s *Screen) ManyLines() bool { return s.mode == full }

// A Canvas is the part of a terminal that lines must fit into.
type Canvas struct {
	Columns, Rows int
	Color         bool
}

// Draw replaces the redrawn lines by the result of the function `lines`, which must fit the canvas.
// It draws nothing while a question is open.
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
	// Some terminals wrap a line that fills the last column.
	c := Canvas{Columns: max(columns-1, 1), Rows: max(rows-1, 1), Color: s.mode == full}
	if s.mode == oneLine {
		c.Rows = 1
	}
	s.replace(lines(c), columns)
}

// Printf prints lines that stay, above the redrawn lines.
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

// Clear removes the redrawn lines.
func (s *Screen) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
}

// Pause removes the redrawn lines, so that the caller can ask the user a question. Nothing is
// redrawn until the caller calls resume.
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

// clear removes the redrawn lines. It returns the width of the terminal, or 0 if there were no
// lines to remove. The caller holds mu.
func (s *Screen) clear() (columns int) {
	if len(s.shown) == 0 {
		return 0
	}
	columns, _ = s.size()
	s.replace(nil, columns)
	return columns
}

// replace overwrites the redrawn lines with the given ones. The caller holds mu.
func (s *Screen) replace(lines []string, columns int) {
	frame := nextFrame
	if s.mode == oneLine {
		frame = nextLine
	}
	// Ignore an error: either nobody sees the output any more, or the next call overwrites these
	// lines.
	_, _ = io.WriteString(s.out, frame(s.shown, lines, columns))
	s.shown = lines
}

// nextFrame returns the text that replaces the old lines by new ones. It assumes that the cursor is
// at the beginning of the line below the old lines. If the terminal has become narrower than an old
// line, the terminal has wrapped that line.
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

// nextLine does the same as nextFrame, but for at most one line and without escape sequences. It
// assumes that the cursor is at the end of the old line.
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

// green starts the green colour of a bar's completed part, and plainText stops it.
const green, plainText = "\x1b[32m", "\x1b[m"

// Green returns the text with escape sequences that make it green.
func Green(text string) string { return green + text + plainText }

// withoutColor removes the escape sequences of [Green] from a line.
func withoutColor(line string) string {
	return strings.NewReplacer(green, "", plainText, "").Replace(line)
}
