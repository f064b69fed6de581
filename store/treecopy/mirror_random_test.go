package treecopy_test

import (
	"cmp"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/repeat"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// Whatever two trees contain, and whatever the rules are: after a sync the target has the files of
// the source that the rules include, and its own files that they exclude. A second sync does
// nothing.
func TestRandomMirrors(t *testing.T) {
	seed := cmp.Or(*treeSeed, rand.Uint64())
	repeat.OnFailure(t, fmt.Sprintf("-seed=%d", seed))
	for round := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, round))
		source, dest := store.Mem(0), store.Mem(0)
		if round%10 == 0 {
			dest, _ = dirTree(t)
		}
		from, to := source, dest
		switch round % 15 {
		case 3:
			from = remoteTree(t, source, false)
		case 7:
			to = remoteTree(t, dest, false)
		}
		o := mirroring()
		text := randomRules(rnd)
		o.Filter, o.Delete.Excluded, o.Delete.EmptySource = rulesOf(t, text), rnd.IntN(3) == 0, true
		// An excluded file would keep a directory that is in the way of a file.
		mixed := text == "" || o.Delete.Excluded
		growMirrored(t, rnd, source, dest, mixed)
		want := wantMirrored(t, o, source, dest)
		about := fmt.Sprintf("round %d, rules %q, excluded too: %v", round, text, o.Delete.Excluded)
		dry := o
		dry.DryRun = true
		d, _, err := copyAll(t.Context(), from, to, "./", dry, ".")
		r, _, e := copyAll(t.Context(), from, to, "./", o, ".")
		if err != nil || e != nil || d.Deleted != r.Deleted || d.Copied != r.Copied || d.Moved != r.Moved {
			t.Fatalf("%s: dry %+v, %v; then %+v, %v", about, d, err, r, e)
		}
		wantSame(t, want, filesOf(t, o.Filter, dest))
		again, _, err := copyAll(t.Context(), from, to, "./", o, ".")
		if err != nil || again.Copied+again.Deleted+again.Moved+again.Made != 0 {
			t.Errorf("%s: again %+v, %v", about, again, err)
		}
		if t.Failed() {
			t.Fatal(about)
		}
	}
}

// filesOf describes the files and directories of a tree. It omits excluded directories, which exist
// through their files.
func filesOf(t *testing.T, rules *treecopy.Filter, tree store.Tree) map[string]string {
	all := contents(t, tree, false)
	for name, text := range all {
		if text[0] == 'd' && verdictOn(rules, name, true) != treecopy.Included {
			delete(all, name)
		}
	}
	return all
}

// verdictOn returns the verdict on an entry by its own name and those of its parents.
func verdictOn(rules *treecopy.Filter, name string, dir bool) treecopy.Verdict {
	for i, c := range name {
		if c == '/' && rules.Match(name[:i], true) == treecopy.Excluded {
			return treecopy.Excluded
		}
	}
	return rules.Match(name, dir)
}

// wantMirrored returns the expected contents of the target after a sync.
func wantMirrored(t *testing.T, o treecopy.Options, source, dest store.Tree) map[string]string {
	want := map[string]string{}
	for name, text := range contents(t, source, false) {
		if verdictOn(o.Filter, name, text[0] == 'd') == treecopy.Included {
			want[name] = text
		}
	}
	if o.Delete.Excluded {
		return want
	}
	there := contents(t, dest, false)
	filled := map[string]bool{}
	for name := range there {
		filled[path.Dir(name)] = true
	}
	for name, text := range there {
		verdict := verdictOn(o.Filter, name, text[0] == 'd')
		if verdict == treecopy.Excluded || verdict == treecopy.Entered && !filled[name] {
			if text[0] != 'd' {
				want[name] = text
			}
			for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
				if verdictOn(o.Filter, dir, true) == treecopy.Included {
					want[dir] = (fs.ModeDir | 0o755).String()
				}
			}
		}
	}
	return want
}

// randomRules returns some rules, or none.
func randomRules(rnd *rand.Rand) string {
	patterns := []string{"*.o", "/d1/", "d2/", "/d1/**/f1", "f[12]", "/d*/f*", "**/d3/*", "d3/d1/", "/{d1,f}*/**", "*", "f3", "/d2/d?/*.o", "[!f]*", "**"}
	text := ""
	for range rnd.IntN(5) {
		text += []string{"+ ", "- ", "- "}[rnd.IntN(3)] + patterns[rnd.IntN(len(patterns))] + "\n"
	}
	return text
}

// growMirrored fills two trees that have much in common. If mixed, a file in one may be a directory
// in the other.
func growMirrored(t *testing.T, rnd *rand.Rand, source, dest store.Tree, mixed bool) {
	name := func(dir bool) string {
		if dir != (mixed && rnd.IntN(8) == 0) {
			return fmt.Sprintf("d%d", 1+rnd.IntN(3))
		}
		return fmt.Sprintf("f%d%s", 1+rnd.IntN(4), []string{"", ".o", "\n", "\xff"}[rnd.IntN(4)])
	}
	put(t, source, "f0", []byte("there is always one"))
	for range 5 + rnd.IntN(30) {
		dir := ""
		for range rnd.IntN(3) {
			dir = path.Join(dir, name(true))
		}
		full := path.Join(dir, name(false))
		text, at := strings.Repeat("x", 1+rnd.IntN(3)), time.Unix(1_500_000_000+rnd.Int64N(2), 0)
		if rnd.IntN(8) == 0 {
			text = strings.Repeat(text, 150_000)
		}
		both := rnd.IntN(3)
		for i, tree := range []store.Tree{source, dest} {
			if both != i { // 0 or 1 excludes that tree, 2 means both
				growOne(t, tree, full, text, at)
			}
		}
	}
	growOne(t, dest, "d1/"+name(true)+"/", "", time.Time{})
}

// growOne makes a file, or a directory if the name ends in a slash, unless something is in the way.
func growOne(t *testing.T, tree store.Tree, name, text string, at time.Time) {
	dir, isDir := path.Dir(name), strings.HasSuffix(name, "/")
	if isDir {
		dir = strings.TrimSuffix(name, "/")
	}
	for above := dir; above != "."; above = path.Dir(above) {
		if fi, err := tree.Lstat(t.Context(), above); err == nil && !fi.IsDir() {
			return
		}
	}
	if _, err := tree.Lstat(t.Context(), strings.TrimSuffix(name, "/")); err == nil {
		return
	}
	if isDir {
		mkdir(t, tree, dir)
		return
	}
	put(t, tree, name, []byte(text))
	setTime(t, tree, name, at)
}
