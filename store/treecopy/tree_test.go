package treecopy_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/store/treecopy"
)

// dirTree returns an empty store in a directory, and that directory.
func dirTree(t testing.TB) (*localdir.Dir, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return localdir.New(root), dir
}

// put stores a file, and makes the directories above it.
func put(t testing.TB, tree store.Tree, name string, data []byte) {
	t.Helper()
	mkdir(t, tree, path.Dir(name))
	storetest.Put(t, tree, name, data)
}

func mkdir(t testing.TB, tree store.Tree, name string) {
	t.Helper()
	if name == "." {
		return
	}
	mkdir(t, tree, path.Dir(name))
	if err := tree.Mkdir(t.Context(), name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
}

func get(t testing.TB, tree store.Tree, name string) []byte {
	t.Helper()
	f, err := tree.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, fi.Size())
	if n, err := f.ReadAt(b, 0); n < len(b) {
		t.Fatalf("%s: %d of %d bytes, %v", name, n, len(b), err)
	}
	return b
}

// contents describes all entries of a tree, by name.
func contents(t testing.TB, tree store.Tree, times bool) map[string]string {
	t.Helper()
	all := map[string]string{}
	var walk func(dir string)
	walk = func(dir string) {
		list, err := tree.OpenDir(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		defer list.Close()
		for {
			into := make([]fs.FileInfo, 10)
			n, err := list.Next(into)
			for _, fi := range into[:n] {
				name := path.Join(dir, fi.Name())
				all[name] = describe(t, tree, name, fi, times)
				if fi.IsDir() {
					walk(name)
				}
			}
			if err == io.EOF {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	walk(".")
	return all
}

func describe(t testing.TB, tree store.Tree, name string, fi fs.FileInfo, times bool) string {
	text := fi.Mode().String()
	if times && fi.Mode().Type() != fs.ModeSymlink {
		text += fmt.Sprint(" ", fi.ModTime().Unix())
	}
	switch {
	case fi.Mode().IsRegular():
		b := get(t, tree, name)
		text += fmt.Sprintf(" %d bytes, %x, %x", len(b), b[:min(len(b), 8)], sha256.Sum256(b))
	case fi.Mode().Type() == fs.ModeSymlink:
		to, err := tree.Readlink(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		text = "link to " + to
	}
	return text
}

// wantNames compares the names in a tree.
func wantNames(t *testing.T, tree store.Tree, want ...string) {
	t.Helper()
	var got []string
	for name := range contents(t, tree, false) {
		got = append(got, name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the tree has %q, want %q", got, want)
	}
}

// wantSame compares two trees.
func wantSame(t *testing.T, from, to map[string]string) {
	t.Helper()
	for name, text := range from {
		if to[name] != text {
			t.Errorf("%q is %q, want %q", name, to[name], text)
		}
	}
	for name := range to {
		if _, ok := from[name]; !ok {
			t.Errorf("%q is there too", name)
		}
	}
}

// wantNothingLeft fails if a directory of the system contains leftovers of a copy.
func wantNothingLeft(t *testing.T, dir string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".haul-") {
			t.Errorf("%s is left behind", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// pattern returns bytes in which no two parts look alike.
func pattern(n int, seed uint64) []byte {
	b := make([]byte, n)
	rnd := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	_, _ = rnd.Read(b)
	return b
}

// A seen records the calls of the hooks.
type seen struct {
	outcomes map[string]treecopy.Outcome // by name in the source
	bytes    map[string]int64
	totals   treecopy.Totals
	lock     chan struct{}
}

func newSeen() *seen {
	return &seen{outcomes: map[string]treecopy.Outcome{}, bytes: map[string]int64{}, lock: make(chan struct{}, 1)}
}

func (s *seen) do(f func()) {
	s.lock <- struct{}{}
	f()
	<-s.lock
}

func (s *seen) hooks() treecopy.Hooks {
	return treecopy.Hooks{
		Found:    func(n treecopy.Totals) { s.do(func() { s.totals = n }) },
		Started:  func(i *treecopy.Item) { s.do(func() { s.bytes[i.From] = 0 }) },
		Progress: func(i *treecopy.Item, n int64) { s.do(func() { s.bytes[i.From] += n }) },
		Ended:    func(i *treecopy.Item, o treecopy.Outcome) { s.do(func() { s.outcomes[i.From] = o }) },
	}
}

// copyAll copies sources, given by name, below a target.
func copyAll(ctx context.Context, from, to store.Tree, target string, o treecopy.Options, names ...string) (treecopy.Result, *seen, error) {
	s := newSeen()
	j := treecopy.Job{To: to, Target: target, Options: o, Hooks: s.hooks()}
	for _, n := range names {
		j.Sources = append(j.Sources, treecopy.Source{Tree: from, Name: n})
	}
	r, err := treecopy.Copy(ctx, j)
	return r, s, err
}

// setTime sets the time of an entry.
func setTime(t testing.TB, tree store.Tree, name string, at time.Time) {
	t.Helper()
	if err := tree.SetAttr(t.Context(), name, store.Attr{AccessTime: at, ModTime: at}, true); err != nil {
		t.Fatal(err)
	}
}

func setMode(t testing.TB, tree store.Tree, name string, mode fs.FileMode) {
	t.Helper()
	if err := tree.SetAttr(t.Context(), name, store.Attr{Mode: &mode}, true); err != nil {
		t.Fatal(err)
	}
}

func wantBytes(t *testing.T, tree store.Tree, name string, want []byte) {
	t.Helper()
	if got := get(t, tree, name); !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes that are not the %d of its source", name, len(got), len(want))
	}
}
