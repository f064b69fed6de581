package events

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// A stuckReader accepts nothing before it is released.
type stuckReader struct {
	bytes.Buffer
	release chan struct{}
	writes  int
}

func (s *stuckReader) Write(p []byte) (int, error) {
	<-s.release
	s.writes++
	return s.Buffer.Write(p)
}

// config returns the configuration of a command whose errors all have the exit code 7.
func config(out io.Writer) Config {
	return Config{Out: out, Command: "get", Sources: []string{"a"}, To: ".", Classify: func(error) (int, string) { return 7, "odd" }}
}

// kinds returns the kinds of the events in a text, one per line, and the last event.
func kinds(t *testing.T, text string) (list []string, last map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		last = nil
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, last["event"].(string))
	}
	return list, last
}

// A slow reader receives every result, in order, in writes of whole lines. Progress events that it
// has no time for are dropped. A bounded number of lines waits for it; after that, goroutines that
// emit results wait.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &stuckReader{release: make(chan struct{})}
		l := Begin(t.Context(), config(out))
		synctest.Wait() // the start event is being written
		l.Emit(&Removed{Entry: NewEntry("first", "", 0)})
		l.Offer(&Progress{Current: []Current{}})
		const results = 3 * maxQueue
		emitted, ended := 0, make(chan error)
		go func() {
			for range results {
				l.Emit(&Removed{Entry: NewEntry("x", "", 0)})
				emitted++
			}
			ended <- l.End(nil)
		}()
		synctest.Wait()
		if emitted >= maxQueue {
			t.Errorf("%d events wait", emitted)
		}
		close(out.release)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		list, last := kinds(t, out.String())
		if want := 1 + 1 + results + 1; len(list) != want || last["removed"] != float64(results+1) || last["lost"] != nil {
			t.Errorf("%d events, want %d; %v", len(list), want, last)
		}
		if strings.Contains(strings.Join(list, " "), "progress") || out.writes > len(list)/2 {
			t.Errorf("%d writes of %d events", out.writes, len(list))
		}
	})
}

// An interrupted command waits for its reader only for a bounded time.
func TestInterruptedWithoutReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		out := &stuckReader{release: make(chan struct{})}
		l := Begin(ctx, config(out))
		synctest.Wait() // the start event is being written, and the goroutine takes no other lines
		ended := make(chan error)
		go func() {
			for range 3 * maxQueue {
				l.Emit(&Removed{Entry: NewEntry("x", "", 0)})
			}
			ended <- l.End(context.Canceled)
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if lost := l.lost.Load(); lost < maxQueue {
			t.Errorf("%d events are counted as lost", lost)
		}
		close(out.release)
		<-l.lines // let the writing goroutine return
		l.lines <- nil
	})
}

// A command that ends long after its interruption still writes its end event.
func TestLateEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var out bytes.Buffer
		l := Begin(ctx, config(&out))
		cancel()
		time.Sleep(10 * grace)
		_ = l.End(context.Canceled)
		if list, last := kinds(t, out.String()); len(list) != 2 || last["result"] != "interrupted" {
			t.Errorf("%s", out.String())
		}
	})
}

// The end event reports how the command ended. An error that an event about an entry has reported
// is not written again, and advice is a note.
func TestResults(t *testing.T) {
	entry := NewEntry("a", "", 0)
	for _, c := range []struct {
		what   string
		err    func(l *Log) error
		cancel bool
		want   string
		result string
	}{
		{"nothing failed", func(*Log) error { return nil }, false, "start end", "ok"},
		{"an entry", func(l *Log) error { return l.Failed(entry, errors.New("no")) }, false, "start failed end", "incomplete"},
		{"an entry for two reasons", func(l *Log) error { return l.Failed(entry, errors.Join(errors.New("no"), errors.New("nor this"))) }, false, "start failed end", "incomplete"},
		{"an entry and advice", func(l *Log) error {
			return errors.Join(l.Failed(entry, errors.New("no")), failure.Note("try again"))
		}, false, "start failed note end", "incomplete"},
		{"the command", func(*Log) error { return errors.New("no") }, false, "start error end", "failed"},
		{"both", func(l *Log) error { return errors.Join(errors.New("no"), l.Failed(entry, errors.New("nor this"))) }, false, "start failed error end", "failed"},
		{"a signal", func(l *Log) error { return errors.Join(context.Canceled, l.Failed(entry, errors.New("no"))) }, true, "start failed end", "interrupted"},
		{"somebody else's signal", func(*Log) error { return context.Canceled }, false, "start error end", "failed"},
	} {
		var out bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		l := Begin(ctx, config(&out))
		err := c.err(l)
		if c.cancel {
			cancel()
		}
		after := l.End(err)
		list, last := kinds(t, out.String())
		if got := strings.Join(list, " "); got != c.want || last["result"] != c.result || (err == nil) != (last["exit_code"] == 0.0) || !errors.Is(after, err) && err != after {
			t.Errorf("%s: %s, %v", c.what, got, last)
		}
		cancel()
	}
}

// The lines cannot control a terminal, and preserve every byte of a name.
func TestHostileNames(t *testing.T) {
	var out bytes.Buffer
	c := config(&out)
	name := "a\x1b[2J\n\u202e\u2028\xff<&>"
	c.Sources, c.To = []string{"plain", name}, name
	l := Begin(t.Context(), c)
	l.Note(name)
	l.Offer(&Progress{Current: []Current{NewCurrent(name, 1, 2)}})
	_ = l.Failed(NewEntry(name, name, 0), errors.New(name))
	_ = l.End(nil)
	for _, r := range out.String() {
		if r != '\n' && (r < ' ' || r > '~') {
			t.Errorf("%q in %s", r, out.String())
			break
		}
	}
	for line := range strings.Lines(out.String()) {
		var e struct {
			Event   string
			Sources [][]byte `json:"sources_bytes"`
			To      []byte   `json:"to_bytes"`
			Path    []byte   `json:"path_bytes"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Error(err)
		}
		if e.Event == "start" && (string(e.To) != name || len(e.Sources) != 2 || string(e.Sources[1]) != name) || e.Event == "failed" && (string(e.Path) != name || string(e.To) != name) {
			t.Errorf("%s", line)
		}
	}
}

// A nil log accepts every call.
func TestNilLog(t *testing.T) {
	var l *Log
	l.Emit(&Found{})
	l.Offer(&Progress{})
	no := errors.New("no")
	if l.Failed(Entry{}, no) != no || l.End(no) != no || l.End(nil) != nil {
		t.Error("the error is another one")
	}
}
