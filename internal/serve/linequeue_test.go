package serve

import (
	"log/slog"
	"os"
	"strings"
	"testing"
)

// A log that nobody reads stops nobody.
func TestServeSFTPLogStuck(t *testing.T) {
	t.Parallel() // it waits most of the time
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	q := newLineQueue(slog.New(slog.NewTextHandler(w, nil)))
	for i := range maxQueued + 1000 {
		q.say(slog.LevelInfo, strings.Repeat("x", 1000), slog.Int("line", i))
	}
	if q.lost.Load() == 0 {
		t.Error("no line was lost, so that this shows nothing")
	}
	q.close() // gives up waiting
}
