package treecopy_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// If a copy ends early, the unfinished files are counted, and do not count as failed.
func TestLeft(t *testing.T) {
	const files = 500
	from := store.Mem(0)
	for i := range files {
		put(t, from, fmt.Sprint("d/", i), pattern(1000, uint64(i)))
	}
	for _, fatal := range []bool{false, true} {
		to := store.Mem(0)
		ctx, stop := context.WithCancel(t.Context())
		seen := newSeen()
		n := 0
		j := treecopy.Job{Sources: []treecopy.Source{{Tree: from, Name: "d"}}, To: to, Options: recursive}
		j.Hooks.Started = func(*treecopy.Item) {
			seen.do(func() {
				if n++; n == 100 && !fatal {
					stop()
				}
			})
		}
		if fatal {
			j.Options.Fatal = func(err error) bool { return errors.Is(err, treecopy.ErrConflict) }
			mkdir(t, to, "d")
			mkdir(t, to, "d/100")
		}
		r, err := treecopy.Copy(ctx, j)
		stop()
		if fatal && !errors.Is(err, treecopy.ErrConflict) || !fatal && !errors.Is(err, context.Canceled) {
			t.Errorf("fatal %v: %v", fatal, err)
		}
		if want := map[bool]int64{true: 1}[fatal]; r.Failed != want {
			t.Errorf("fatal %v: %d failed, want %d", fatal, r.Failed, want)
		}
		if r.Left != r.Found.Files-r.Copied-r.Failed || !fatal && r.Left == 0 {
			t.Errorf("fatal %v: %d are left: %+v", fatal, r.Left, r)
		}
	}
	r, _, err := copyAll(t.Context(), from, store.Mem(0), ".", recursive, "d")
	if err != nil || r.Left != 0 || r.Copied != files {
		t.Errorf("%+v, %v", r, err)
	}
}

// A dry run fails in the same cases as the copy.
func TestDryRunLooksAbove(t *testing.T) {
	for _, target := range []string{"none/x", "none/x/", "f/x"} {
		for _, dry := range []bool{false, true} {
			from := world(t)
			to, _ := dirTree(t)
			put(t, to, "f", []byte("a file"))
			_, _, err := copyAll(t.Context(), from, to, target, treecopy.Options{DryRun: dry}, "c.txt")
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("to %s, dry %v: %v", target, dry, err)
			}
		}
	}
}

// Messages contain the names that the user knows.
func TestShown(t *testing.T) {
	from, to := store.Mem(0), store.Mem(0)
	put(t, from, "sub/x", []byte("x"))
	put(t, from, "x", []byte("x"))
	mkdir(t, to, "sub")
	mkdir(t, to, "sub/x")
	mkdir(t, to, "x")
	try := func(target string, sources ...treecopy.Source) string {
		for i := range sources {
			sources[i].Tree = from
		}
		_, err := treecopy.Copy(t.Context(), treecopy.Job{Sources: sources, To: to, Target: target, Options: recursive})
		if err == nil {
			return ""
		}
		return err.Error()
	}
	tests := []struct {
		want string
		got  string
	}{
		{"copy tree/sub/x: ", try(".", treecopy.Source{Name: "sub", Shown: "tree/sub"})},
		{"copy tree/x: ", try(".", treecopy.Source{Name: "x", Shown: "tree/x"})},
		{"copy none: ", try(".", treecopy.Source{Name: "y", Shown: "none"})},
		{"a/x and b/x would both become ", try(".", treecopy.Source{Name: "x", Shown: "a/x"}, treecopy.Source{Name: "sub/x", Shown: "b/x"})},
	}
	for _, test := range tests {
		if !strings.HasPrefix(test.got, test.want) {
			t.Errorf("%q, want %q", test.got, test.want)
		}
	}
	top := store.Mem(0)
	mkdir(t, top, "x")
	_, err := treecopy.Copy(t.Context(), treecopy.Job{
		Sources: []treecopy.Source{{Tree: from, Name: ".", Shown: "tree/."}}, To: top, Options: recursive,
	})
	if err == nil || !strings.HasPrefix(err.Error(), "copy tree/x: ") {
		t.Errorf("of the root: %v", err)
	}
}
