package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp"
)

// An eventField is a field of an event, as described in docs/json.md.
type eventField struct {
	kind   string
	always bool
}

// eventSchema holds the fields of each kind of event. Objects in a progress event have the kind
// "current".
type eventSchema struct {
	doc   string // name of the document
	kinds map[string]map[string]eventField

	mu   sync.Mutex
	seen map[string]bool // guarded by mu: kinds, and fields as kind.field
}

var eventRow = regexp.MustCompile("^\\| `(\\w+)` \\| (\\w+) \\| (yes|no) \\|")

// readEventSchema reads the tables of docs/json.md.
func readEventSchema(t *testing.T) *eventSchema { return readSchema(t, "json.md", 15) }

// readSchema reads the tables of a document, which must have at least the given number of kinds.
func readSchema(t *testing.T, doc string, least int) *eventSchema {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + doc)
	if err != nil {
		t.Fatal(err)
	}
	s := &eventSchema{doc: doc, kinds: map[string]map[string]eventField{}, seen: map[string]bool{}}
	common := map[string]eventField{}
	fields := common
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if kind, ok := strings.CutPrefix(line, "### "); ok {
			fields = maps.Clone(common)
			s.kinds[kind] = fields
		} else if strings.HasPrefix(line, "Each object of `current`") {
			fields = map[string]eventField{}
			s.kinds["current"] = fields
		} else if m := eventRow.FindStringSubmatch(line); m != nil {
			fields[m[1]] = eventField{m[2], m[3] == "yes"}
		}
	}
	if len(s.kinds) < least || len(common) != 2 {
		t.Fatalf("%d kinds of events and %d common fields; is the search at fault?", len(s.kinds), len(common))
	}
	return s
}

// check checks each line of an output: the first must be a start and the last an end, and the
// counts of the end must match the events. It returns the events.
func (s *eventSchema) check(t *testing.T, out string) (events []map[string]any) {
	t.Helper()
	counts := map[string]float64{}
	for line := range strings.Lines(out) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("%q: %v", line, err)
		}
		kind, _ := e["event"].(string)
		s.object(t, kind, e)
		counts[kind]++
		events = append(events, e)
	}
	if len(events) < 2 || events[0]["event"] != "start" || events[len(events)-1]["event"] != "end" || counts["start"] != 1 || counts["end"] != 1 {
		t.Fatalf("not from a start to an end:\n%s", out)
	}
	end := events[len(events)-1]
	if len(kindsOf(events)) == 2 {
		return events // --quiet
	}
	if end["files"] != counts["copied"] {
		t.Errorf("the end has %v files:\n%s", end["files"], out)
	}
	for _, kind := range []string{"unchanged", "made", "skipped", "removed", "renamed", "failed", "unfinished"} {
		if end[kind] != counts[kind] {
			t.Errorf("the end has %v for %s:\n%s", end[kind], kind, out)
		}
	}
	return events
}

// object checks one object of a kind.
func (s *eventSchema) object(t *testing.T, kind string, e map[string]any) {
	t.Helper()
	fields, ok := s.kinds[kind]
	if !ok {
		t.Errorf("docs/%s has no event %q: %v", s.doc, kind, e)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[kind] = true
	for name, f := range fields {
		value, there := e[name]
		switch {
		case !there && f.always:
			t.Errorf("%s has no %s: %v", kind, name, e)
		case there && !isOfKind(value, f.kind):
			t.Errorf("%s: %s is no %s: %v", kind, name, f.kind, value)
		case there:
			s.seen[kind+"."+name] = true
		}
	}
	for name := range e {
		if _, ok := fields[name]; !ok {
			t.Errorf("docs/%s has no field %s of %s: %v", s.doc, name, kind, e)
		}
	}
	if list, ok := e["current"].([]any); ok {
		s.mu.Unlock()
		for _, c := range list {
			s.object(t, "current", c.(map[string]any))
		}
		s.mu.Lock()
	}
}

// isOfKind reports whether a value has a kind of docs/json.md.
func isOfKind(v any, kind string) bool {
	text, isText := v.(string)
	number, isNumber := v.(float64)
	list, isList := v.([]any)
	every := func(kind string) bool {
		return isList && !slices.ContainsFunc(list, func(v any) bool { return !isOfKind(v, kind) })
	}
	switch kind {
	case "string":
		return isText
	case "strings":
		return every("string")
	case "base64":
		_, err := base64.StdEncoding.DecodeString(text)
		return isText && err == nil
	case "base64s":
		return every("base64")
	case "time":
		at, err := time.Parse(time.RFC3339, text)
		return err == nil && strings.HasSuffix(text, "Z") && !at.IsZero()
	case "integer":
		return isNumber && number == float64(int64(number)) && number >= 0
	case "number":
		return isNumber && number >= 0
	case "boolean":
		_, ok := v.(bool)
		return ok
	case "hash":
		return v == nil || isText && len(text) == 64
	case "objects":
		return isList
	}
	return false
}

// kindsOf returns the kinds of events, except those that depend on time.
func kindsOf(events []map[string]any) (kinds []string) {
	for _, e := range events {
		if kind := e["event"].(string); kind != "progress" {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// find returns the events of a kind.
func find(events []map[string]any, kind string) (some []map[string]any) {
	for _, e := range events {
		if e["event"] == kind {
			some = append(some, e)
		}
	}
	return some
}

// A jsonRun is a command with --json and its expected events.
type jsonRun struct {
	args   []string
	code   int
	result string
	kinds  string // kinds of the expected events, sorted, without start, end and progress
}

// run runs a command, and checks each line of its output. Standard error may contain only errors.
func (s *eventSchema) run(t *testing.T, haul func(args ...string) (int, string, string), r jsonRun) []map[string]any {
	t.Helper()
	code, out, msg := haul(append([]string{r.args[0], "--json"}, r.args[1:]...)...)
	events := s.check(t, out)
	end := events[len(events)-1]
	kinds := kindsOf(events)
	kinds = kinds[1 : len(kinds)-1]
	slices.Sort(kinds)
	if got := strings.Join(kinds, " "); code != r.code || end["exit_code"] != float64(r.code) || end["result"] != r.result || got != r.kinds {
		t.Errorf("haul %q: exit code %d (want %d), result %v (want %s), events %q (want %q), %s\n%s", r.args, code, r.code, end["result"], r.result, got, r.kinds, msg, out)
	}
	if code == 0 != (msg == "") {
		t.Errorf("haul %q: exit code %d, and standard error has %q", r.args, code, msg)
	}
	return events
}

// Every command prints the events of docs/json.md with the described fields, over each protocol,
// for files that succeed and fail. Each event and each field is used.
func TestJSONEvents(t *testing.T) {
	s := readEventSchema(t)
	hostile := "bad\x1b[2J\n\u202ename"
	files := map[string]string{"d/a": "aaa", "d/sub/b": "bb", hostile: "h"}
	t.Run("all", func(t *testing.T) { s.testAll(t, files, hostile) })
	s.wantAllSeen(t)
}

// testAll runs the commands of [TestJSONEvents].
func (s *eventSchema) testAll(t *testing.T, files map[string]string, hostile string) {
	t.Run("sftp", func(t *testing.T) {
		l := startLab(t, files)
		here := t.TempDir()
		if err := os.Symlink("a", filepath.Join(l.dir, "d", "link")); err != nil {
			t.Skip(err)
		}
		s.run(t, l.haul, jsonRun{[]string{"get", "-n", "-r", "lab:d", here}, 0, "ok", "copied copied found made made skipped"})
		s.run(t, l.haul, jsonRun{[]string{"get", "-r", "-p", "--verify", "lab:d", here}, 0, "ok", "copied copied file file found made made skipped"})
		s.run(t, l.haul, jsonRun{[]string{"get", "-r", "--unchanged=hash", "lab:d", here}, 0, "ok", "found skipped unchanged unchanged"})
		s.run(t, l.haul, jsonRun{[]string{"get", "-q", "lab:d/a", here}, 0, "ok", ""})
		s.run(t, l.haul, jsonRun{[]string{"get", "lab:d/a", "lab:d", here}, exitFailed, "incomplete", "copied failed file found"})
		s.run(t, l.haul, jsonRun{[]string{"get", "lab:none", here}, exitNotFound, "incomplete", "failed"})
		s.run(t, l.haul, jsonRun{[]string{"get", "sftp://127.0.0.1:1/x", here}, exitNoAnswer, "failed", "error"})
		s.run(t, l.haul, jsonRun{[]string{"rm", "sftp://127.0.0.1:1/x"}, exitNoAnswer, "failed", "error"})
		s.run(t, l.haul, jsonRun{[]string{"put", filepath.Join(here, "d", "a"), filepath.Join(here, "d"), "lab:new"}, exitFailed, "incomplete", "copied failed file found"})
		s.run(t, l.haul, jsonRun{[]string{"put", "-r", filepath.Join(here, "d"), "lab:up/"}, 0, "ok", "copied copied file file found made made"})
		got := s.run(t, l.haul, jsonRun{[]string{"get", "lab:" + hostile, here}, 0, "ok", "copied file found"})
		if c := find(got, "copied")[0]; c["path"] != "lab:"+hostile || c["to"] != filepath.Join(here, hostile) || c["size"] != 1.0 || c["bytes"] != 1.0 {
			t.Errorf("%v", c)
		}
		s.run(t, l.haul, jsonRun{[]string{"rm", "-n", "-r", "lab:up"}, 0, "ok", strings.TrimSpace(strings.Repeat("removed ", 5))})
		s.run(t, l.haul, jsonRun{[]string{"rm", "lab:" + hostile, "lab:d", "lab:none"}, exitRefused, "incomplete", "failed failed removed"})
		s.run(t, l.haul, jsonRun{[]string{"rm", "-r", "-f", "lab:up", "lab:none"}, 0, "ok", "removed"})
	})
	t.Run("sync", func(t *testing.T) {
		t.Parallel()
		l, here := startLab(t, nil), t.TempDir()
		big := strings.Repeat("0123456789abcdef", 20_000)
		writeTree(t, here, "new/name="+big+" a=1 b=2")
		writeTree(t, l.dir, "to/old="+big+" to/gone/x=3 to/b=2")
		for _, dry := range []bool{true, false} {
			args, kinds := []string{"sync", "--delete", "--checksum", here, "lab:to"}, "copied file found made removed removed renamed unchanged"
			if dry {
				args, kinds = append(args, "-n"), strings.Replace(kinds, "file ", "", 1)
			}
			got := s.run(t, l.haul, jsonRun{args, 0, "ok", kinds})
			if e := find(got, "renamed"); len(e) == 1 && (e[0]["was"] != "lab:to/old" || e[0]["to"] != "lab:to/new/name") {
				t.Errorf("%v", e[0])
			}
			for _, e := range find(got, "removed") {
				if !strings.HasPrefix(e["path"].(string), "lab:to/gone") {
					t.Errorf("%v", e)
				}
			}
		}
		s.run(t, l.haul, jsonRun{[]string{"sync", here, "lab:none/none"}, exitNotFound, "failed", "error"})
		s.run(t, l.haul, jsonRun{[]string{"sync", filepath.Join(here, "none"), "lab:to"}, exitLocal, "failed", "error"})
	})
	t.Run("bytes", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("names have to be UTF-8 here")
		}
		t.Parallel()
		name := "caf\xe9"
		slow := &slowTree{hold: make(chan struct{})}
		l := startLabWith(t, labOptions{tree: func(tree store.Tree) store.Tree { slow.Tree = tree; return slow }}, map[string]string{name: strings.Repeat("x", 1<<20), "b": ""})
		here := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(here, 0o777); err != nil {
			t.Fatal(err)
		}
		out := &lockedBuffer{}
		done := make(chan int)
		go func() { done <- runInto(t.Context(), out, l.args("get", "--json", "lab:"+name, "lab:b", here)...) }()
		eventually(t, "a progress", func() bool { return strings.Count(out.String(), `"event":"progress"`) > 0 })
		close(slow.hold)
		if code := <-done; code != 0 {
			t.Errorf("exit code %d", code)
		}
		events := s.check(t, out.String())
		for _, kind := range []string{"file", "copied"} {
			exact := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
			if !slices.ContainsFunc(find(events, kind), func(e map[string]any) bool {
				return e["path"] == "lab:caf\ufffd" && e["path_bytes"] == exact("lab:"+name) && e["to_bytes"] == exact(filepath.Join(here, name))
			}) {
				t.Errorf("no %s of %q: %s", kind, name, out.String())
			}
		}
		progress := find(events, "progress")
		p := progress[len(progress)-1]
		list := p["current"].([]any)
		if p["active"] != 2.0 || len(list) != 2 || !slices.ContainsFunc(list, func(c any) bool { return c.(map[string]any)["size"] == float64(1<<20) }) {
			t.Errorf("%v", p)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		slow := &slowTree{hold: make(chan struct{})}
		l := startLabWith(t, labOptions{tree: func(tree store.Tree) store.Tree { slow.Tree = tree; return slow }}, map[string]string{"a": strings.Repeat("x", 1<<20), "b": strings.Repeat("x", 1<<20)})
		defer close(slow.hold)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out := &lockedBuffer{}
		done := make(chan int)
		go func() { done <- runInto(ctx, out, l.args("get", "--json", "lab:a", "lab:b", t.TempDir())...) }()
		eventually(t, "the file begins", func() bool { return strings.Count(out.String(), `"event":"file"`) == 2 })
		cancel()
		code := <-done
		events := s.check(t, out.String())
		end := events[len(events)-1]
		if kinds := strings.Join(kindsOf(events), " "); code != exitInterrupted || end["result"] != "interrupted" || end["exit_code"] != 130.0 || kinds != "start found file file unfinished unfinished note end" {
			t.Errorf("exit code %d, %s\n%s", code, kinds, out.String())
		}
	})
	t.Run("http", func(t *testing.T) {
		l := startWeb(t, files)
		here := t.TempDir()
		run := func(args ...string) (int, string, string) { return haul(t, args...) }
		s.run(t, run, jsonRun{[]string{"get", l.URL + "/d/a", l.URL + "/none", here}, exitNotFound, "incomplete", "copied failed file found"})
		s.run(t, run, jsonRun{[]string{"get", l.URL + "/d/a", here}, 0, "ok", "copied file found"})
		s.run(t, run, jsonRun{[]string{"put", filepath.Join(here, "a"), l.URL + "/new"}, 0, "ok", "copied file found"})
		l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPut {
				http.Error(w, "no", http.StatusForbidden)
			}
			return r.Method == http.MethodPut
		})
		s.run(t, run, jsonRun{[]string{"put", filepath.Join(here, "a"), l.URL + "/newer"}, exitRefused, "incomplete", "failed file found"})
	})
	t.Run("s3", func(t *testing.T) {
		b := servetest.NewBucket(t)
		for _, v := range b.Env() {
			name, value, _ := strings.Cut(v, "=")
			t.Setenv(name, value)
		}
		local := filepath.Join(t.TempDir(), "f")
		writeFile(t, local, "content")
		run := func(args ...string) (int, string, string) { return haul(t, args...) }
		s.run(t, run, jsonRun{[]string{"put", local, "s3://bucket/d/"}, 0, "ok", "copied file found"})
		s.run(t, run, jsonRun{[]string{"get", "s3://bucket/d/f", local}, 0, "ok", "copied file found"})
		s.run(t, run, jsonRun{[]string{"rm", "s3://bucket/d/f"}, 0, "ok", "removed"})
	})
	t.Run("tftp", func(t *testing.T) {
		_, url := startServer(t, tftp.OverwriteUploads, map[string]string{"a": "aaa", "b": "b"})
		here := t.TempDir() + "/"
		run := func(args ...string) (int, string, string) { return haul(t, args...) }
		got := s.run(t, run, jsonRun{[]string{"get", url + "a", url + "none", here}, exitNotFound, "incomplete", "copied failed file file"})
		if c := find(got, "copied")[0]; c["path"] != url+"a" || c["to"] != here+"a" || c["size"] != 3.0 {
			t.Errorf("%v", c)
		}
		if f := find(got, "failed")[0]; f["path"] != url+"none" || f["cause"] != "not-found" {
			t.Errorf("%v", f)
		}
		s.run(t, run, jsonRun{[]string{"put", here + "a", url + "up"}, 0, "ok", "copied file"})
	})
}

// wantAllSeen checks that everything in docs/json.md was seen.
func (s *eventSchema) wantAllSeen(t *testing.T) {
	t.Helper()
	rare := []string{
		// Other tests cover these.
		"end.lost", "copied.resumed", "copied.resent", "start.sources_bytes", "unchanged.verified",
		"progress.remaining", // appears only if a copy takes long enough
	}
	for kind, fields := range s.kinds {
		for name := range fields {
			_, isBytes := strings.CutSuffix(name, "_bytes")
			if key := kind + "." + name; !s.seen[key] && !isBytes && !slices.Contains(rare, key) {
				t.Errorf("no %s was printed", key)
			}
		}
	}
}

// runInto runs a command like [haul], but prints to out.
func runInto(ctx context.Context, out io.Writer, args ...string) (code int) {
	cmd := newRoot()
	cmd.SetArgs(args)
	cmd.SetOut(out)
	cmd.SetErr(io.Discard)
	if err := cmd.ExecuteContext(ctx); err != nil {
		code = exitCode(err)
	}
	return code
}

// A slowTree holds back the data of files.
type slowTree struct {
	store.Tree
	hold chan struct{} // closed to release the data
}

func (s *slowTree) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	h, err := s.Tree.OpenFile(ctx, name, a)
	if err != nil {
		return nil, err
	}
	return slowHandle{h, s.hold}, nil
}

type slowHandle struct {
	store.Handle
	hold chan struct{}
}

func (h slowHandle) ReadAt(p []byte, off int64) (int, error) {
	<-h.hold
	return h.Handle.ReadAt(p, off)
}

// Events and a file cannot both be written to standard output, under any name.
func TestJSONAndFileApart(t *testing.T) {
	_, url := startServer(t, tftp.NoUploads, map[string]string{"a": "x"})
	if code, out, msg := haul(t, "get", "--json", url+"a", "-"); code != exitUsage || out != "" || !strings.Contains(msg, "standard output") {
		t.Errorf("exit code %d, %q, %q", code, out, msg)
	}
	file := filepath.Join(t.TempDir(), "out")
	writeFile(t, file, "")
	out, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := checkApart(&checkedOutput{File: out}, file); err == nil {
		t.Error("the file that is standard output is taken")
	}
	if err := checkApart(&checkedOutput{File: out}, t.TempDir()); err != nil {
		t.Error(err)
	}
}

// A command whose events cannot be written completes its work, and reports the error.
func TestJSONToFullDisk(t *testing.T) {
	dir, url := startServer(t, tftp.OverwriteUploads, map[string]string{"a": "x"})
	code := runInto(t.Context(), fullOutput{}, "get", "--json", url+"a", filepath.Join(dir, "b"))
	if code != exitLocal {
		t.Errorf("exit code %d", code)
	}
	wantFile(t, filepath.Join(dir, "b"), "x")
}

// A fullOutput accepts no data.
type fullOutput struct{}

func (fullOutput) Write([]byte) (int, error) { return 0, errors.New("disk is full") }
