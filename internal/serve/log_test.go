package serve

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/linequeue"
	"github.com/haul-project/haul/internal/serve/servetest"
)

// A log on a pipe that nobody reads keeps nobody waiting, even with the handler's lock
// held: lines are lost, and Close gives up.
func TestLineQueueStuck(t *testing.T) {
	t.Parallel() // it waits most of the time
	r, w := io.Pipe()
	defer r.Close() // ends the write
	q := newLineQueue((&Config{}).log(w))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range linequeue.Max + 1000 {
			q.say(slog.LevelInfo, "x")
		}
		q.Close()
	}()
	select {
	case <-ended:
	case <-time.After(servetest.Patience):
		t.Fatal("it still waits")
	}
	if q.Lost() == 0 {
		t.Error("no line was lost, so that this shows nothing")
	}
}
