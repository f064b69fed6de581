package linequeue

import (
	"io"
	"log/slog"
	"testing"
	"time"
)

// If the log is a pipe that nobody reads, Say does not block, even though the blocked handler holds
// its lock: lines are lost. Close returns after Grace.
func TestLogStuck(t *testing.T) {
	t.Parallel() // it waits most of the time
	const patience = time.Minute
	r, w := io.Pipe()
	defer r.Close() // so that the blocked write returns
	q := NewLog(slog.New(slog.NewTextHandler(w, nil)))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range Max + 1000 {
			q.Say(slog.LevelInfo, "x")
		}
		q.Close()
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("it still waits")
	}
	if q.Lost() == 0 {
		t.Error("no line was lost, so that this shows nothing")
	}
}
