//go:build unix

package main

import (
	"encoding/json"
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

// hostileNames would forge lines or control a terminal if they were written unescaped.
var hostileNames = []string{
	"a\nlevel=ERROR msg=forged", "a\r\nb", "a\n{\"msg\":\"forged\"}", "\x1b[2J\x1b]0;title\a",
	"\xff\xfe\x80", "\u009b31m", "a\x7fb", "a\" result=done b=\"", "{\"a\":1}", "\u202eexe.txt", "a\u2028b", "\\n", "=", "tab\tb",
	strings.Repeat("\x1b", 400),
}

// askHostile requests all hostileNames from a server, and returns the server's output.
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
		want := name[:min(len(name), 256)] // the log cuts the names of absent files
		if !utf8.ValidString(name) {       // JSON must be Unicode
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
