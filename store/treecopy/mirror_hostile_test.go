package treecopy_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/haul-project/haul/internal/repeat"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// A fickle tree lists its directories differently each time: names are missing, duplicate, of
// another type, or invalid. It records the names that it is asked to remove.
type fickle struct {
	store.Tree
	mu      sync.Mutex
	rnd     *rand.Rand // guarded by mu
	removed []string   // names that the tree was asked to remove; guarded by mu
}

var hostileNames = []string{"..", ".", "", "../up", "a/b", "/etc/passwd", "nul\x00", "line\nend", "\xff\xfe", "..\n", "-", "*", `back\slash`}

func (f *fickle) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	e, err := f.Tree.OpenDir(ctx, name)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	var list []fs.FileInfo
	into := make([]fs.FileInfo, 100)
	for err == nil {
		var n int
		n, err = e.Next(into)
		list = append(list, into[:n]...)
	}
	if err != io.EOF {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []fs.FileInfo
	for _, fi := range list {
		switch f.rnd.IntN(12) {
		case 0:
		case 1:
			all = append(all, fi, fi)
		case 2:
			all = append(all, f.lie(fi, fi.Name()))
		case 3:
			all = append(all, fi, f.lie(fi, fi.Name()))
		case 4:
			all = append(all, fi, f.lie(fi, hostileNames[f.rnd.IntN(len(hostileNames))]))
		default:
			all = append(all, fi)
		}
	}
	return &lies{list: all, end: func() {}}, nil
}

// lie returns a description of an entry with that name and a random type. The caller holds mu.
func (f *fickle) lie(fi fs.FileInfo, name string) fs.FileInfo {
	types := []fs.FileMode{0o644, fs.ModeDir | 0o755, fs.ModeSymlink | 0o777, fs.ModeIrregular, fs.ModeDevice}
	return lie{fi, name, types[f.rnd.IntN(len(types))]}
}

func (f *fickle) note(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.removed = append(f.removed, name)
}

func (f *fickle) Remove(ctx context.Context, name string) error {
	f.note(name)
	return f.Tree.Remove(ctx, name)
}

func (f *fickle) RemoveDir(ctx context.Context, name string) error {
	f.note(name)
	return f.Tree.RemoveDir(ctx, name)
}

// Whatever the listings of a source contain, nothing outside the target is touched, and no file is
// deleted that the source has when it is looked up.
func TestFickleSource(t *testing.T) {
	seed := cmp.Or(*treeSeed, rand.Uint64())
	repeat.OnFailure(t, fmt.Sprintf("-seed=%d", seed))
	for round := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, round))
		source := &fickle{Tree: store.Mem(0), rnd: rnd}
		tree, dir := dirTree(t)
		grow(t, tree, "outside/file", "inside/")
		names := []string{"a", "b", "d/c", "d/e/f", "d/e/g", "h/i"}
		for _, name := range names {
			grow(t, source.Tree, name)
			grow(t, tree, "inside/"+name)
		}
		grow(t, tree, "inside/old", "inside/d/old/x", "inside/d/old/y")
		from := store.Tree(source)
		if round%10 == 0 {
			from = remoteTree(t, source, false)
		}
		o := mirroring()
		o.Links = []treecopy.Links{treecopy.SkipLinks, treecopy.KeepLinks, treecopy.FollowLinks}[rnd.IntN(3)]
		r, s, err := copyAll(t.Context(), from, tree, "inside/", o, ".")
		about := fmt.Sprintf("round %d: %+v, %v, %+v", round, r, err, s.outcomes)
		for _, name := range names {
			if _, err := tree.Lstat(t.Context(), "inside/"+name); err != nil {
				t.Errorf("%s is gone", name)
			}
		}
		list, err := os.ReadDir(dir)
		if err != nil || len(list) != 2 {
			t.Errorf("there are %v, %v", list, err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "outside", "file")); string(b) != "outside/file" {
			t.Errorf("outside there is %q, %v", b, err)
		}
		if t.Failed() {
			t.Fatal(about)
		}
	}
}

// Whatever the listings of a target contain, only names below it are removed, and none that the
// source has.
func TestFickleTarget(t *testing.T) {
	seed := cmp.Or(*treeSeed, rand.Uint64())
	repeat.OnFailure(t, fmt.Sprintf("-seed=%d", seed))
	for round := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, round))
		dest := &fickle{Tree: store.Mem(0), rnd: rnd}
		source := store.Mem(0)
		for _, name := range []string{"a", "b", "d/c", "d/e/f", "d/e/g"} {
			grow(t, source, name)
			grow(t, dest.Tree, name)
		}
		grow(t, dest.Tree, "old", "d/old/x", "d/old/y", "line\nend", "d/\xff")
		to := store.Tree(dest)
		if round%10 == 0 {
			to = remoteTree(t, dest, false)
		}
		r, s, err := copyAll(t.Context(), source, to, "./", mirroring(), ".")
		about := fmt.Sprintf("round %d: %+v, %v, %+v", round, r, err, s.outcomes)
		for _, name := range dest.removed {
			if path.Clean("/"+name) != "/"+name || slices.Contains([]string{".", ".."}, name) {
				t.Errorf("haul removes %q", name)
			}
		}
		if r.Failed == 0 && err == nil {
			for name := range contents(t, source, false) {
				if _, err := dest.Tree.Lstat(t.Context(), name); err != nil {
					t.Errorf("nothing has failed, and %s is gone", name)
				}
			}
		}
		if t.Failed() {
			t.Fatal(about)
		}
	}
}
