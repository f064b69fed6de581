package fileops

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/sftp/sftpclient"
	"github.com/haul-project/haul/store"
)

// A liar is a server on which every directory has the same entries, whatever its name.
type liar struct {
	remote.Server
	names  []string // a directory's name ends in a slash
	err    error    // result of each listing
	listed int

	mu    sync.Mutex
	modes map[string]fs.FileMode // guarded by mu: modes set by clients
}

func (l *liar) List(_ context.Context, dir string, _ bool) (list []fs.DirEntry, err error) {
	l.listed++
	if l.err != nil {
		return nil, l.err
	}
	for _, name := range l.names {
		list = append(list, fs.FileInfoToDirEntry(lie(name)))
	}
	return list, nil
}

func (l *liar) SetAttr(_ context.Context, name string, a store.Attr, _ bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.modes[name] = *a.Mode
	return nil
}

func (l *liar) Capabilities() store.Capabilities { return store.Capabilities{} }

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

// Invalid names are errors and lead nowhere, endless directories end at a bound, and only a bounded
// number of errors is kept.
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
	s.yieldAll(t.Context(), w, serverFiles{wide}, list, errs, 0, func(j sumJob) bool { n++; return j.err != nil })
	if n != 1 || wide.listed != 2 || !w.ended {
		t.Errorf("%d jobs, %d listings", n, wide.listed)
	}
	var many problems
	for range maxListErrors + 3 {
		many.failed(io.EOF, nil, failure.Said.Wrap(io.EOF))
	}
	if err := many.err(); strings.Count(err.Error(), "EOF") != maxListErrors || !strings.Contains(err.Error(), fmt.Sprintf("\n%d more errors are not", maxListErrors/2+3)) {
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

// ls and tree stop when their output fails, and list no further directories. So does rm -n; rm -v
// and chmod -v finish their work.
func TestWalkEndsWithOutput(t *testing.T) {
	mode, err := ParseMode("700", 0)
	if err != nil {
		t.Fatal(err)
	}
	full := func() *bufio.Writer { return bufio.NewWriterSize(fullWriter{}, 16) }
	for name, c := range map[string]struct {
		most int // number of directories that may be listed
		run  func(*liar) error
	}{
		"ls -R": {1, func(s *liar) error {
			out := full()
			l := &lister{ListConfig: ListConfig{Recursive: true}, out: out, name: strings.Clone, walk: walk{flush: out.Flush}}
			l.directory(t.Context(), s, "d", 0)
			return l.err()
		}},
		"tree": {1, func(s *liar) error {
			out := full()
			d := &drawing{out: out, name: strings.Clone, walk: walk{flush: out.Flush}}
			d.below(t.Context(), s, "d", "", 1)
			return d.err()
		}},
		"rm -n": {1, func(s *liar) error {
			m := &removal{RemoveConfig: RemoveConfig{DryRun: true}, out: fullWriter{}, name: strings.Clone}
			return errors.Join(m.sayAll(t.Context(), s, "d", 0), errors.Join(m.errs...))
		}},
		"chmod -v": {3, func(s *liar) error {
			p := &permit{ChmodConfig: ChmodConfig{Mode: mode, Recursive: true, Verbose: true}, out: fullWriter{}, name: strings.Clone}
			p.below(t.Context(), s, "d", maxListDepth-1)
			p.errs = slices.DeleteFunc(p.errs, func(err error) bool { return strings.Contains(err.Error(), "deeper than") })
			return p.err()
		}},
	} {
		s := &liar{names: []string{"a/", "b/", "f"}, modes: map[string]fs.FileMode{}}
		err := c.run(s)
		if !errors.Is(err, failure.Local) || strings.Count(err.Error(), "no room") != 1 || strings.Contains(err.Error(), "\n") || s.listed != c.most {
			t.Errorf("%s: %v after %d listings, want %d", name, err, s.listed, c.most)
		}
	}
}

// After the connection to a server is lost, that server gets no more requests, but another server
// does.
func TestWalkLosesServer(t *testing.T) {
	gone, other := &liar{names: []string{"a/"}, err: sftpclient.ErrConnectionLost}, &liar{names: []string{"f"}}
	var out strings.Builder
	d := &drawing{out: bufio.NewWriter(&out), name: strings.Clone}
	for _, s := range []*liar{gone, gone, other} {
		d.below(t.Context(), s, "d", "", 1)
	}
	_ = d.out.Flush() // cannot fail, because it writes to a strings.Builder
	if err := d.err(); !remote.IsLost(err) || len(d.errs) != 1 || gone.listed != 1 || out.String() != "└── f\n" {
		t.Errorf("%v after %d listings, printed %q", err, gone.listed, out.String())
	}
	p := &permit{out: io.Discard, name: strings.Clone, walk: walk{lost: gone}}
	p.set(t.Context(), gone, []entry{{FileInfo: lie("f"), path: "f"}})
	if len(p.errs) > 0 || gone.modes != nil {
		t.Errorf("chmod asks it: %v", p.errs)
	}
}

// An interruption between two requests is reported as an error.
func TestWalkInterrupted(t *testing.T) {
	mode, err := ParseMode("700", 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := &permit{ChmodConfig: ChmodConfig{Mode: mode}, out: io.Discard, name: strings.Clone}
	p.set(ctx, &liar{}, []entry{{FileInfo: lie("f"), path: "f"}})
	var out strings.Builder
	d := &drawing{out: bufio.NewWriter(&out), name: strings.Clone}
	d.below(ctx, &liar{names: []string{"f"}}, "d", "", 1)
	for what, err := range map[string]error{"chmod": p.err(), "tree": d.err()} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
