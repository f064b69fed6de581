package copying

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/serve/servetest"
	"github.com/haul-project/haul/store/treecopy"
)

// newTerminal opens a terminal, and notes what it shows.
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

// Nothing is drawn before the first file is found, as a password may be asked for.
func TestNoBarsOverQuestions(t *testing.T) {
	t.Parallel()
	slave, screen := newTerminal(t)
	p := newCopyProgress(slave, false)
	time.Sleep(5 * console.RedrawEvery)
	_, _ = slave.WriteString("Password: ")
	if text := await(t, screen, "Password: "); text != "Password: " {
		t.Errorf("before the question: %q", text)
	}
	p.hooks().Found(treecopy.Totals{Files: 2, Bytes: 1000})
	await(t, screen, "1.0 kB or more")
	p.end()
}

// Messages of all who have something to say go above the bars, and none is lost
// when the bars have ended.
func TestMessagesAndBars(t *testing.T) {
	t.Parallel()
	slave, screen := newTerminal(t)
	r := &run{Config: &Config{Stderr: slave}}
	p := newCopyProgress(slave, false)
	r.progress.Store(p.Progress)
	p.hooks().Found(treecopy.Totals{Files: 2, Bytes: 1000})
	await(t, screen, "1.0 kB or more")
	r.say("the first")
	await(t, screen, "haul: the first\r\n")
	if text := await(t, screen, "0 B of"); strings.Contains(text, "or more, 0 of 2 files, 0 B/shaul") {
		t.Errorf("the message is behind a bar: %q", text)
	}
	p.end()
	r.say("the last")
	await(t, screen, "haul: the last\r\n")
}
