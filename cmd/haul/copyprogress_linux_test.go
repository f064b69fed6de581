package main

import (
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/store/treecopy"
)

// Nothing is drawn before the first file is found, as a password may be asked for.
func TestNoBarsOverQuestions(t *testing.T) {
	t.Parallel()
	y := newTerminal(t)
	p := newCopyProgress(y.slave, false)
	time.Sleep(5 * console.RedrawEvery)
	_, _ = y.slave.WriteString("Password: ")
	if screen := y.await("Password: "); screen != "Password: " {
		t.Errorf("before the question: %q", screen)
	}
	p.hooks().Found(treecopy.Totals{Files: 2, Bytes: 1000})
	y.await("1.0 kB or more")
	p.end()
}

// Messages of all who have something to say go above the bars, and none is lost
// when the bars have ended.
func TestMessagesAndBars(t *testing.T) {
	t.Parallel()
	y := newTerminal(t)
	r := &copyRun{copyFlags: &copyFlags{}, stderr: y.slave}
	p := newCopyProgress(y.slave, false)
	r.progress.Store(p.Progress)
	p.hooks().Found(treecopy.Totals{Files: 2, Bytes: 1000})
	y.await("1.0 kB or more")
	r.say("the first")
	y.await("haul: the first\r\n")
	if screen := y.await("0 B of"); strings.Contains(screen, "or more, 0 of 2 files, 0 B/shaul") {
		t.Errorf("the message is behind a bar: %q", screen)
	}
	p.end()
	r.say("the last")
	y.await("haul: the last\r\n")
}
