//go:build unix

package handover

import (
	"log/slog"
	"strings"
	"testing"
)

// A server whose child has ended before it, after a restart of its own, logs nothing when
// it cannot report its end.
func TestChildEndedFirst(t *testing.T) {
	line, theirs, err := newLine()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	r := &Restarter{Log: slog.New(slog.NewTextHandler(&log, nil))}
	r.next.Store(&child{line: line})
	defer line.Close()
	r.Ended(HTTP)
	_ = theirs.Close() // with a line unread, and then without one
	r.Ended(HTTP)
	r.Ended(HTTP)
	if log.Len() > 0 {
		t.Errorf("logged %s", log.String())
	}
}
