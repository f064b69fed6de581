package linequeue

import (
	"io"
	"log/slog"
	"testing"
	"time"
)

// A log on a pipe that nobody reads blocks nobody, even while the handler's lock is held: lines
// are lost, and Close gives up.
func TestLogStuck(t *testing.T) {
	t.Parallel() // it waits most of the time
	const patience = time.Minute
	r, w := io.Pipe()
	defer r.Close() // ends the write
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
