package copying

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/store/treecopy"
)

// In these tests terminals have all features, whatever terminal runs the tests.
func init() {
	_ = os.Setenv("TERM", "xterm")
	_ = os.Unsetenv("NO_COLOR")
}

// newTerminal opens a terminal, and records its output.
func newTerminal(t *testing.T) (slave *os.File, screen *servetest.Buffer) {
	t.Helper()
	master, slave := servetest.OpenTerminal(t)
	screen = new(servetest.Buffer)
	go func() { _, _ = io.Copy(screen, master) }() // ends when the terminal is closed
	return slave, screen
}

// await waits until the screen shows a text, and returns all of it.
func await(t *testing.T, screen *servetest.Buffer, text string) string {
	t.Helper()
	servetest.Eventually(t, "the screen shows "+text, func() bool { return strings.Contains(screen.String(), text) })
	return screen.String()
}

// Nothing is drawn before the first file is found, or while a question is open: the user may be
// typing a password.
func TestNoLinesOverQuestions(t *testing.T) {
	t.Parallel()
	slave, screen := newTerminal(t)
	p := newProgress(&Config{Stderr: slave}, true, shownName)
	time.Sleep(5 * console.RedrawEvery)
	_, _ = slave.WriteString("Password: ")
	if text := await(t, screen, "Password: "); text != "Password: " {
		t.Errorf("before the question: %q", text)
	}
	p.setFound(treecopy.Totals{Files: 2, Bytes: 1000})
	await(t, screen, "1.0 kB or more")
	resume := p.Pause()
	_, _ = slave.WriteString("Again: ")
	time.Sleep(5 * console.RedrawEvery)
	if text := await(t, screen, "Again: "); !strings.HasSuffix(text, "\x1b[1A\x1b[JAgain: ") {
		t.Errorf("around the second question: %q", text)
	}
	resume()
	await(t, screen, "Again: 0 B of 1.0 kB or more")
	p.end()
}

// Messages from all goroutines appear above the redrawn lines, and none is lost when those lines
// are cleared at the end.
func TestMessagesAndLines(t *testing.T) {
	t.Parallel()
	slave, screen := newTerminal(t)
	r := &run{Config: &Config{Stderr: slave}}
	p := r.newProgress(true, shownName)
	p.setFound(treecopy.Totals{Files: 2, Bytes: 1000})
	await(t, screen, "1.0 kB or more")
	r.say("the first")
	if text := await(t, screen, "haul: the first\r\n0 B of"); !strings.Contains(text, "\x1b[1A\x1b[Jhaul: the first\r\n") {
		t.Errorf("the message is behind a line: %q", text)
	}
	p.end()
	r.say("the last")
	if text := await(t, screen, "haul: the last\r\n"); !strings.HasSuffix(text, "\x1b[1A\x1b[Jhaul: the last\r\n") {
		t.Errorf("the lines are not taken away: %q", text)
	}
}

// Lines fit when the terminal becomes narrower during a copy.
func TestResize(t *testing.T) {
	t.Parallel()
	slave, screen := newTerminal(t)
	p := newProgress(&Config{Stderr: slave}, true, shownName)
	p.setFound(treecopy.Totals{Files: 2, Bytes: 1000})
	await(t, screen, "0 B of 1.0 kB or more, 0 of 2 files, 0 B/s")
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 20}); err != nil {
		t.Fatal(err)
	}
	await(t, screen, "\r\x1b[3A0 B/s\x1b[K\r\n\x1b[J") // the line was wrapped to three
	p.end()
}
