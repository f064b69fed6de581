package fileops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/remote"
)

// A liar is a server each of whose directories has the same entries, whatever they are called.
type liar struct {
	remote.Server
	names  []string // those of directories end in a slash
	listed int

	mu    sync.Mutex
	modes map[string]fs.FileMode // mu: that were set
}

func (l *liar) List(_ context.Context, dir string, _ bool) (list []fs.DirEntry, err error) {
	l.listed++
	for _, name := range l.names {
		list = append(list, fs.FileInfoToDirEntry(lie(name)))
	}
	return list, nil
}

func (l *liar) Chmod(_ context.Context, name string, mode fs.FileMode) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.modes[name] = mode
	return nil
}

func (l *liar) HasModes() bool { return true }

// lie describes an entry that a liar lists.
func lie(name string) fs.FileInfo {
	file := &fstest.MapFile{Mode: 0o644}
	base := strings.TrimSuffix(name, "/")
	if base != name {
		file.Mode = fs.ModeDir | 0o755
	}
	fi, err := fstest.MapFS{"x": file}.Stat("x")
	if err != nil {
		panic(err)
	}
	return named{fi, base}
}

type named struct {
	fs.FileInfo
	name string
}

func (n named) Name() string { return n.name }

// Names that are not those of entries are errors, and lead nowhere; directories without end
// have one; and many errors are few.
func TestWalkHostile(t *testing.T) {
	hostile := []string{"..", ".", "", "../up", "a/b", "/etc/", "a\x00b", "../../"}
	l := &liar{names: append(hostile, "good", "\x1b[2J", "line\nend"), modes: map[string]fs.FileMode{}}
	list, errs := new(walk).list(t.Context(), l, "d", 0, true)
	if len(list) != 3 || len(errs) != len(hostile) {
		t.Errorf("%d entries, %v", len(list), errs)
	}
	for _, err := range errs {
		if !errors.Is(err, failure.Remote) {
			t.Error(err)
		}
	}
	mode, err := ParseMode("600", 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &permit{ChmodConfig: ChmodConfig{Mode: mode, Recursive: true}, out: io.Discard, name: strings.Clone}
	p.below(t.Context(), l, "d", 0)
	if len(l.modes) != 3 || l.modes["d/good"] != 0o600 || len(p.errs) != len(hostile) {
		t.Errorf("%v, %v", l.modes, p.errs)
	}
	deep := &liar{names: []string{"d/", "f"}, modes: map[string]fs.FileMode{}}
	p = &permit{ChmodConfig: ChmodConfig{Mode: mode, Recursive: true}, out: io.Discard, name: strings.Clone}
	p.below(t.Context(), deep, "d", 0)
	if deep.listed != maxListDepth+1 || len(p.errs) != 1 || !strings.Contains(p.errs[0].Error(), "deeper than") {
		t.Errorf("%d listings, %v", deep.listed, p.errs)
	}
	wide := &liar{names: []string{"a/", "b/"}}
	var s summer
	s.Recursive = true
	w := &walk{dirs: maxListDirs - 2}
	n := 0
	list, errs = w.list(t.Context(), wide, "d", 0, true)
	s.yieldAll(t.Context(), w, wide, list, errs, 0, func(j sumJob) bool { n++; return j.err != nil })
	if n != 1 || wide.listed != 2 || !w.full() {
		t.Errorf("%d jobs, %d listings", n, wide.listed)
	}
	var many problems
	for range maxListErrors + 3 {
		many.failed(io.EOF, nil)
	}
	if err := many.err(); strings.Count(err.Error(), "EOF") != maxListErrors || !strings.Contains(err.Error(), "3 more errors") {
		t.Errorf("%.100v", err)
	}
}

// Lists and names that cannot be written are local failures.
func TestFullOutput(t *testing.T) {
	mode, err := ParseMode("600", 0)
	if err != nil {
		t.Fatal(err)
	}
	p := &permit{ChmodConfig: ChmodConfig{Mode: mode, Verbose: true}, out: fullWriter{}, name: strings.Clone}
	p.below(t.Context(), &liar{names: []string{"a", "b"}, modes: map[string]fs.FileMode{}}, "d", 0)
	if err := p.err(); !errors.Is(err, failure.Local) || strings.Count(err.Error(), "no room") != 1 {
		t.Errorf("chmod -v: %v", err)
	}
	stdin := []string{"-"}
	list := strings.NewReader(strings.Repeat("0", 64) + "  none\n")
	if err := CheckSums(t.Context(), nil, stdin, nil, SumConfig{Say: func(error) {}}, list, fullWriter{}); !errors.Is(err, failure.Local) {
		t.Errorf("sum --check: %v", err)
	}
	bad := io.MultiReader(strings.NewReader("\n"), badReader{})
	if err := CheckSums(t.Context(), nil, stdin, nil, SumConfig{}, bad, new(bytes.Buffer)); !errors.Is(err, failure.Local) || !strings.Contains(err.Error(), "read standard input") {
		t.Errorf("a list that cannot be read: %v", err)
	}
}

type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, fmt.Errorf("no room") }

type badReader struct{}

func (badReader) Read([]byte) (int, error) { return 0, fmt.Errorf("no disk") }
