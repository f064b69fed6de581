package store_test

import (
	"io/fs"
	"testing"

	"github.com/haul-project/haul/store"
)

// A file is the same under all its names, as long as it is not replaced.
func TestSameFile(t *testing.T) {
	_, onDisk := tempDir(t)
	for kind, tree := range map[string]store.Tree{"on disk": onDisk, "in memory": store.Mem(0)} {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
		}
		info := func(name string, follow bool) fs.FileInfo {
			t.Helper()
			stat := tree.Lstat
			if follow {
				stat = tree.Stat
			}
			fi, err := stat(t.Context(), name)
			must(err)
			return fi
		}
		must(tree.Mkdir(t.Context(), "d", 0))
		must(tree.Mkdir(t.Context(), "d2", 0))
		must(upload(t, tree, "d/f", "content", store.Create{}))
		must(upload(t, tree, "d/g", "content", store.Create{}))
		must(tree.Link(t.Context(), "d/f", "hard"))
		must(tree.Symlink(t.Context(), "d", "l"))
		for _, test := range []struct {
			a, b   string
			follow bool
			want   bool
		}{
			{".", ".", true, true},
			{"d", "d", true, true},
			{"d", "d2", true, false},
			{"d", ".", true, false},
			{"l", "d", true, true},
			{"l", "d", false, false},
			{"l", "l", false, true},
			{"l/f", "d/f", true, true},
			{"d/f", "hard", true, true},
			{"d/f", "d/g", true, false},
			{"d/f", "d", true, false},
		} {
			if got := store.SameFile(info(test.a, test.follow), info(test.b, test.follow)); got != test.want {
				t.Errorf("%s: %s and %s, follow %t: %t", kind, test.a, test.b, test.follow, got)
			}
		}
		f, d := info("d/f", true), info("d", true)
		must(tree.Rename(t.Context(), "d", "moved", false))
		if !store.SameFile(d, info("moved", true)) || !store.SameFile(f, info("moved/f", true)) {
			t.Errorf("%s: another after a rename", kind)
		}
		must(upload(t, tree, "moved/f", "content", store.Create{}))
		if store.SameFile(f, info("moved/f", true)) || !store.SameFile(f, info("hard", true)) {
			t.Errorf("%s: a file that was replaced", kind)
		}
		other := store.Mem(0)
		must(other.Mkdir(t.Context(), "d", 0))
		theirs, err := other.Stat(t.Context(), "d")
		must(err)
		if store.SameFile(theirs, d) || store.SameFile(d, theirs) {
			t.Errorf("%s: a directory of another store", kind)
		}
		generated, err := store.NewFile("d", nil, 0, theirs.ModTime()).Stat()
		must(err)
		if store.SameFile(generated, generated) || store.SameFile(generated, d) {
			t.Errorf("%s: what is in no store", kind)
		}
	}
}
