package audit

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/activity"
	"github.com/haul-project/haul/internal/linequeue"
)

// A line is the part of a log line that the tests check.
type line struct {
	Event, File string
	Lines       int64
}

// read returns the lines of a file, and checks that each is complete.
func read(t *testing.T, path string) (all []line) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.Lines(string(text)) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil || !strings.HasSuffix(text, "\n") {
			t.Fatalf("%q: %v", text, err)
		}
		all = append(all, l)
	}
	return all
}

func wantLines(t *testing.T, path string, want ...line) {
	t.Helper()
	got := read(t, path)
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}

func event(name string) activity.Event {
	return activity.Event{Event: activity.Uploaded, Time: time.Now(), File: name}
}

func uploaded(name string) line { return line{Event: "uploaded", File: name} }

func open(t *testing.T, path string) (*Log, *bytes.Buffer) {
	t.Helper()
	var said bytes.Buffer
	l, err := Open(path, slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return l, &said
}

// When the log is closed, all lines are in the file, in order. An existing file is appended to.
func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	var want []line
	for run := range 2 {
		l, _ := open(t, path)
		for i := range linequeue.Max {
			name := strconv.Itoa(run*linequeue.Max + i)
			l.Add(event(name))
			want = append(want, uploaded(name))
		}
		l.Close()
	}
	wantLines(t, path, want...)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// Whatever a name is, it makes one line, without characters that act on a terminal.
func TestHostileNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, _ := open(t, path)
	names := []string{"a\n{\"event\":\"lost\"}", "$(touch x)", "\x1b[2J\x07\x7f\u009b", "caf\xe9", strings.Repeat("\xff", 8<<10), "\x00", "<&>"}
	for _, name := range names {
		l.Add(event(name))
	}
	l.Close()
	if got := read(t, path); len(got) != len(names) {
		t.Errorf("%d lines of %d names", len(got), len(names))
	}
	text, err := os.ReadFile(path)
	if err != nil || bytes.ContainsAny(text, "\x00\x07\x1b\x7f\u009b") {
		t.Errorf("%q, %v", text, err)
	}
}

// If a killed process has left the last line incomplete, the log continues on a new line.
func TestTorn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(path, []byte(`{"event":"uploaded"}`+"\n"+`{"event":"upl`), 0o600); err != nil {
		t.Fatal(err)
	}
	l, _ := open(t, path)
	l.Add(event("next"))
	l.Close()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after, _ := strings.Cut(string(text), `{"event":"upl`+"\n")
	if before != `{"event":"uploaded"}`+"\n" || !strings.Contains(after, `"file":"next"`) || strings.Count(after, "\n") != 1 {
		t.Errorf("%q", text)
	}
}

// If another program renames the file, the log creates a new file. Each line is in exactly one of
// the two files.
func TestRenamed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.jsonl")
	synctest.Test(t, func(t *testing.T) {
		l, said := open(t, path)
		add := func(name string) {
			l.Add(event(name))
			synctest.Wait()
		}
		add("1")
		if err := os.Rename(path, path+".1"); err != nil {
			t.Fatal(err)
		}
		add("2") // too soon for another check
		time.Sleep(lookEvery)
		add("3")
		wantLines(t, path+".1", uploaded("1"), uploaded("2"))
		wantLines(t, path, uploaded("3"))

		// If no new file can be created, the old one is used, and that is logged once.
		if err := os.Rename(path, path+".2"); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"4", "5"} {
			time.Sleep(lookEvery)
			add(name)
		}
		wantLines(t, path+".2", uploaded("3"), uploaded("4"), uploaded("5"))
		if n := strings.Count(said.String(), "cannot be opened"); n != 1 {
			t.Errorf("it is logged %d times: %s", n, said)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookEvery)
		add("6")
		l.Close()
		wantLines(t, path, uploaded("6"))
		if !strings.Contains(said.String(), "audit: the file has its name again") {
			t.Errorf("that it is over is not logged: %s", said)
		}
	})
}

// Lines for which the queue had no room are reported in one line.
func TestGap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	l, said := open(t, path)
	l.gap(5) // the writing goroutine is idle
	l.Add(event("next"))
	l.Close()
	wantLines(t, path, line{Event: "lost", Lines: 5}, uploaded("next"))
	if !strings.Contains(said.String(), "lines=5") {
		t.Error(said)
	}
}

// A file that is not regular is refused. The error names its type and gives advice.
func TestOpenErrors(t *testing.T) {
	for path, want := range map[string]string{
		t.TempDir(): "audit log",
		filepath.Join(t.TempDir(), "none", "audit.jsonl"): "make its directory first",
		os.DevNull: "not a regular file",
	} {
		l, err := Open(path, slog.New(slog.DiscardHandler))
		if err == nil {
			l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// However many requests a stranger sends, the log has a bounded number of short lines about them,
// says how many it has left out, and has all lines about transfers, failed logins and other sources.
func TestFlood(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	const flood, others = 20_000, 100
	name := strings.Repeat("\x01", 4<<10)
	at := time.Now()
	l, _ := open(t, path)
	for i := range flood {
		l.Add(activity.Event{Event: activity.Refused, Time: at, Protocol: "http", Peer: "192.0.2.1:" + strconv.Itoa(1+i), File: name, Error: name})
		if i < others {
			l.Add(activity.Event{Event: activity.Downloaded, Time: at, Protocol: "http", Peer: "192.0.2.1:1", File: name})
			l.Add(activity.Event{Event: activity.Refused, Time: at, Protocol: "http", Peer: "192.0.2.2:1", File: "other"})
			l.Add(activity.Event{Event: activity.LoginFailed, Time: at, Protocol: "http", Peer: "192.0.2.1"})
		}
	}
	l.Add(activity.Event{Event: activity.LoginFailed, Time: at, Protocol: "http", Peer: "192.0.2.1", User: name})
	// Strangers do not hide what users could not do. Each user has a share.
	for range others + 1 {
		l.Add(activity.Event{Event: activity.Refused, Time: at, Protocol: "http", Peer: "192.0.2.1:1", User: "alice"})
	}
	l.Add(activity.Event{Event: activity.Refused, Time: at, Protocol: "http", Peer: "192.0.2.1:1", User: "bob"})
	l.Close()
	n, refused, other, users := map[string]int{}, 0, 0, 0
	var usersLeftOut int64
	var leftOut, logins int64
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.Lines(string(text)) {
		var e activity.Event
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatal(err)
		}
		n[string(e.Event)]++
		switch {
		case e.Event == activity.Downloaded && e.File != name:
			t.Fatalf("the name of a file that is there has %d bytes", len(e.File))
		case e.Event == activity.LeftOut && e.Operation == "login":
			logins += e.Lines
		case e.Event == activity.LeftOut && e.User == "alice" && e.Peer == "":
			usersLeftOut += e.Lines
			continue
		case e.Event == activity.LeftOut:
			leftOut += e.Lines
		case e.Event == activity.Refused && e.User != "":
			users++
		case e.File == "other":
			other++
		case e.Event == activity.Refused:
			if refused++; !e.Cut || len(text) > 8<<10 {
				t.Fatalf("a line has %d bytes, and cut is %v", len(text), e.Cut)
			}
		}
		if e.Event == activity.LeftOut && (e.Protocol != "http" || !strings.HasPrefix(e.Peer, "192.0.2.1")) {
			t.Errorf("%+v", e)
		}
	}
	if n["downloaded"] != others || n["login_failed"] != others || logins != 1 || other != others || n["lost"] > 0 {
		t.Errorf("the log has %v, with %d lines about another source; %d logins are left out", n, other, logins)
	}
	if users != others+1 || usersLeftOut != 1 {
		t.Errorf("%d lines about users, and %d are left out", users, usersLeftOut)
	}
	if refused > 200 || refused+int(leftOut) != flood {
		t.Errorf("%d lines, and %d are left out", refused, leftOut)
	}
}
