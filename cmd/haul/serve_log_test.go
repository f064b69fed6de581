//go:build unix

package main

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
)

// logLines returns the lines of the log, without the messages that haul prints before it.
func logLines(t *testing.T, said string) (lines []string) {
	t.Helper()
	for line := range strings.Lines(said) {
		if !strings.HasSuffix(line, "\n") {
			t.Errorf("the last line has no end: %q", line)
		}
		if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, "haul: ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// jsonLines returns the lines of a log in JSON.
func jsonLines(t *testing.T, said string) (all []map[string]any) {
	t.Helper()
	for _, line := range logLines(t, said) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		for _, key := range []string{"time", "level", "msg"} {
			if s, ok := object[key].(string); !ok || s == "" {
				t.Errorf("%s has no %s", line, key)
			}
		}
		all = append(all, object)
	}
	return all
}

// transferLines returns the lines about transfers.
func transferLines(lines []map[string]any) []map[string]any {
	return slices.DeleteFunc(lines, func(l map[string]any) bool { return l["msg"] != "tftp" })
}

// Programs rely on these keys: none may disappear or change its type.
func TestServeLogJSON(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/kernel", "image")
	c := startChild(t, childOptions{}, dir, "--log-format", "json", "--upload", "create")
	c.wantGet("kernel", "image")
	c.wantPut("log", "text", 0)
	c.wantPut("kernel", "not this one", exitRefused)
	c.wantNoGet("none", exitNotFound)
	if code, _, errs := haul(t, "probe", c.url+"kernel"); code != 0 {
		t.Errorf("probe: exit code %d, %s", code, errs)
	}
	c.await(`"result":"probe"`)
	lines := transferLines(jsonLines(t, c.stop()))
	type summary struct{ level, result, direction, file string }
	want := []summary{
		{"INFO", "done", "read", "kernel"},
		{"INFO", "done", "write", "log"},
		{"WARN", "refused", "write", "kernel"},
		{"INFO", "refused", "read", "none"},
		{"INFO", "probe", "read", "kernel"},
	}
	if len(lines) != len(want) {
		t.Fatalf("the log has %d transfers, want %d", len(lines), len(want))
	}
	texts := []string{"time", "level", "msg", "result", "direction", "file", "peer", "options"}
	numbers := []string{"bytes", "duration", "rate", "pps", "rtt", "resends"}
	for _, w := range want {
		// The server may learn of the end of one transfer after the next has begun.
		i := slices.IndexFunc(lines, func(l map[string]any) bool {
			return summary{l["level"].(string), l["result"].(string), l["direction"].(string), l["file"].(string)} == w
		})
		if i < 0 {
			t.Errorf("no line is about %v", w)
			continue
		}
		keys := slices.Concat(texts, numbers)
		if w.result == "refused" {
			keys = append(keys, "error")
		} else {
			keys = append(keys, "path")
			if want := filepath.Join(dir, w.file); lines[i]["path"] != want {
				t.Errorf("%v: the path is %v, want %s", w, lines[i]["path"], want)
			}
		}
		slices.Sort(keys)
		if got := slices.Sorted(maps.Keys(lines[i])); !slices.Equal(got, keys) {
			t.Errorf("%v has the keys %q, want %q", w, got, keys)
		}
		for _, key := range numbers {
			if n, ok := lines[i][key].(float64); !ok || n < 0 {
				t.Errorf("%v: %s is %v, want a number", w, key, lines[i][key])
			}
		}
		if w.result == "done" && (lines[i]["bytes"] == 0.0 || lines[i]["rate"] == 0.0 || lines[i]["pps"] == 0.0) {
			t.Errorf("%v: no bytes, no rate or no packets: %v", w, lines[i])
		}
		if took := lines[i]["duration"].(float64); took > 3600 {
			t.Errorf("%v: the duration is %v, want seconds", w, took)
		}
		if peer, ok := lines[i]["peer"].(string); !ok || !strings.HasPrefix(peer, "127.0.0.1:") {
			t.Errorf("%v: peer is %v", w, lines[i]["peer"])
		}
	}
}

// hostileNames would forge lines or control a terminal if they were written unescaped.
var hostileNames = []string{
	"a\nlevel=ERROR msg=forged", "a\r\nb", "a\n{\"msg\":\"forged\"}", "\x1b[2J\x1b]0;title\a",
	"\xff\xfe\x80", "\u009b31m", "a\x7fb", "a\" result=done b=\"", "{\"a\":1}", "\u202eexe.txt", "a\u2028b", "\\n", "=", "tab\tb",
	strings.Repeat("\x1b", 400),
}

// askHostile requests all of these names, and returns the server's output.
func askHostile(t *testing.T, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	c := startChild(t, childOptions{}, append(flags, dir)...)
	for _, name := range hostileNames {
		r := c.dial()
		r.send(readRequest(name))
		if got := r.receive(); !strings.HasPrefix(got, "\x00\x05") {
			t.Errorf("%q is answered by %q", name, got)
		}
	}
	return c.stop()
}

func TestServeLogHostileNames(t *testing.T) {
	logged := 0
	for _, line := range logLines(t, askHostile(t)) {
		if !strings.HasPrefix(line, "time=") {
			t.Errorf("a line of somebody else: %q", line)
		}
		wantPrintable(t, line)
		if strings.Contains(line, " msg=tftp result=refused direction=read file=") {
			logged++
		}
	}
	if logged != len(hostileNames) {
		t.Errorf("%d lines are about %d requests", logged, len(hostileNames))
	}
}

func TestServeLogHostileNamesJSON(t *testing.T) {
	said := askHostile(t, "--log-format", "json")
	var names []string
	for _, line := range transferLines(jsonLines(t, said)) {
		name, ok := line["file"].(string)
		if !ok {
			name, ok = line["file_escaped"].(string)
		}
		if !ok {
			t.Errorf("a line without a name: %v", line)
		}
		names = append(names, name)
	}
	for _, name := range hostileNames {
		want := name
		if !utf8.ValidString(name) { // JSON must be Unicode
			want = console.Visible(name)
		}
		if !slices.Contains(names, want) {
			t.Errorf("no line is about %q", name)
		}
	}
	if len(names) != len(hostileNames) {
		t.Errorf("%d lines are about %d requests", len(names), len(hostileNames))
	}
	for _, line := range logLines(t, said) {
		wantPrintable(t, line)
	}
}

// A trace on a terminal is safe too.
func TestServeTraceHostileNames(t *testing.T) {
	for line := range strings.Lines(askHostile(t, "--trace")) {
		if !strings.Contains(line, " level=") {
			wantPrintable(t, strings.TrimSuffix(line, "\n"))
		}
	}
}

func wantPrintable(t *testing.T, line string) {
	t.Helper()
	for _, r := range line {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			t.Errorf("%q has %q in it", line, r)
		}
	}
}
