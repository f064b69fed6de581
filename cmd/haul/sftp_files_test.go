package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/haul-project/haul/store"
)

// strangeNames are names that would control a terminal.
var strangeNames = []string{"a\x1b[2Jb", "bell\a", "two\nlines", "tab\there", "turn\u202eed", "c1\u009b31m", "bad\xff\xfe", `back\slash`}

// isUntamed reports whether a text contains anything that a terminal would not just print.
func isUntamed(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\r' })
}

func TestLsStrangeNames(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("not every system has such names")
	}
	files := map[string]string{}
	for _, n := range strangeNames {
		files[n] = ""
	}
	l := startLab(t, files)
	// In the output to a pipe, names are unchanged.
	sorted := slices.Sorted(slices.Values(strangeNames))
	if got := l.must("ls", "lab:"); got != strings.Join(sorted, "\n")+"\n" {
		t.Errorf("in a pipe: %q", got)
	}
	// In JSON, every byte of the names is preserved.
	out := l.must("ls", "--json", "lab:")
	if strings.ContainsAny(out, "\x1b\a\t") {
		t.Errorf("JSON with control characters: %q", out)
	}
	i := 0
	for line := range strings.Lines(out) {
		var d struct {
			Name      string
			NameBytes []byte `json:"name_bytes"`
		}
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatal(err)
		}
		if d.NameBytes != nil {
			d.Name = string(d.NameBytes)
		}
		if d.Name != sorted[i] {
			t.Errorf("JSON has %q for %q", d.Name, sorted[i])
		}
		i++
	}
	// Messages escape the names, because terminals show messages. Each name exists, so it is not
	// taken for a pattern.
	for _, n := range strangeNames {
		code, _, msg := l.haul("rm", "lab:"+n+"/x")
		var printed strings.Builder
		printError(&printed, fmt.Errorf("%s", msg))
		if code == 0 || isUntamed(printed.String()) {
			t.Errorf("rm of %q: exit code %d, says %q", n, code, printed.String())
		}
	}
}

func TestLsManyEntries(t *testing.T) {
	const many = 100_000
	mem := store.Mem(1 << 30)
	if err := mem.Mkdir(t.Context(), "big", 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range many {
		u, err := mem.Create(t.Context(), fmt.Sprintf("big/%06d", many-1-i), store.Create{})
		if err != nil {
			t.Fatal(err)
		}
		if err := u.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	l := startLabWith(t, labOptions{tree: func(store.Tree) store.Tree { return mem }}, nil)
	i := 0
	for line := range strings.Lines(l.must("ls", "lab:big")) {
		if line != fmt.Sprintf("%06d\n", i) {
			t.Fatalf("line %d is %q", i, line)
		}
		i++
	}
	if i != many {
		t.Errorf("%d lines", i)
	}
}
