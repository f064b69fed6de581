package treecopy_test

import (
	"cmp"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/internal/repeat"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

var treeSeed = flag.Uint64("seed", 0, "seed of TestRandomTrees; 0 draws one")

// Whatever a tree contains, and however and between whatever stores it is copied, the copy is the
// same, and is left unchanged when it is copied again.
func TestRandomTrees(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	if runtime.GOOS == "windows" {
		t.Skip("files have other modes and names there")
	}
	seed := cmp.Or(*treeSeed, rand.Uint64())
	newTree := map[string]func(t *testing.T) (use, served store.Tree){
		"memory":    func(*testing.T) (store.Tree, store.Tree) { m := store.Mem(0); return m, m },
		"directory": func(t *testing.T) (store.Tree, store.Tree) { d, _ := dirTree(t); return d, d },
		"remote memory": func(t *testing.T) (store.Tree, store.Tree) {
			m := store.Mem(0)
			return remoteTree(t, m, false), m
		},
		"remote directory": func(t *testing.T) (store.Tree, store.Tree) {
			d, _ := dirTree(t)
			return remoteTree(t, d, true), d
		},
	}
	pairs := [][2]string{
		{"memory", "memory"}, {"directory", "directory"}, {"memory", "directory"}, {"remote directory", "directory"},
		{"directory", "remote directory"}, {"remote memory", "remote memory"}, {"memory", "remote memory"}, {"remote memory", "directory"},
	}
	for i, pair := range pairs {
		t.Run(fmt.Sprint(pair[0], " to ", pair[1]), func(t *testing.T) {
			seed := seed + uint64(i)
			repeat.OnFailure(t, fmt.Sprintf("-seed=%d", seed-uint64(i)))
			for round := range uint64(race.Fewer(3, 3)) {
				rnd := rand.New(rand.NewPCG(seed, round))
				from, served := newTree[pair[0]](t)
				to, dest := newTree[pair[1]](t)
				growTree(t, rnd, served)
				o := treecopy.Options{
					Recursive: true, PreserveMode: true, PreserveTimes: true, Links: treecopy.KeepLinks,
					Parallel: rnd.IntN(4), Continue: rnd.IntN(2) == 0, Sparse: rnd.IntN(2) == 0,
					Verify: rnd.IntN(2) == 0, InPlace: rnd.IntN(3) == 0, Durable: rnd.IntN(3) == 0,
				}
				r, s, err := copyAll(t.Context(), from, to, "copy", o, ".")
				if err != nil {
					t.Fatalf("%+v: %v", o, err)
				}
				want := map[string]string{}
				for name, text := range contents(t, served, true) {
					want[path.Join("copy", name)] = text
				}
				top, err := served.Stat(t.Context(), ".")
				if err != nil {
					t.Fatal(err)
				}
				want["copy"] = describe(t, served, ".", top, true)
				wantSame(t, want, contents(t, dest, true))
				if o.Verify {
					for name, o := range s.outcomes {
						if o.What == treecopy.Copied && !o.Verified && s.bytes[name] > 0 {
							t.Errorf("%s is not verified", name)
						}
					}
				}
				o.Unchanged = treecopy.SizeAndTime + treecopy.Unchanged(rnd.IntN(2))
				again, _, err := copyAll(t.Context(), from, to, "copy", o, "./.")
				if err != nil || again.Copied != 0 || again.Same != r.Copied {
					t.Errorf("again with %+v: %+v, %v", o, again, err)
				}
				wantSame(t, want, contents(t, dest, true))
			}
		})
	}
}

// growTree fills a tree at random.
func growTree(t *testing.T, rnd *rand.Rand, tree store.Tree) {
	dirs := []string{"."}
	modes := []fs.FileMode{0o600, 0o644, 0o755, 0o444, 0o777, 0o640}
	var files []string
	for range 10 + rnd.IntN(60) {
		name := path.Join(dirs[rnd.IntN(len(dirs))], randomName(rnd))
		if _, err := tree.Lstat(t.Context(), name); err == nil {
			continue
		}
		switch rnd.IntN(6) {
		case 0, 1:
			mkdir(t, tree, name)
			dirs = append(dirs, name)
		case 2:
			if err := tree.Symlink(t.Context(), randomName(rnd), name); err != nil {
				t.Fatal(err)
			}
		default:
			put(t, tree, name, randomData(rnd))
			files = append(files, name)
		}
	}
	for _, name := range files {
		setMode(t, tree, name, modes[rnd.IntN(len(modes))]|0o400)
		setTime(t, tree, name, time.Unix(rnd.Int64N(1<<31), 0))
	}
	for _, dir := range slices.Backward(dirs) {
		if dir != "." {
			setMode(t, tree, dir, modes[rnd.IntN(len(modes))]|0o700)
		}
		setTime(t, tree, dir, time.Unix(rnd.Int64N(1<<31), 0))
	}
}

func randomName(rnd *rand.Rand) string {
	pieces := []string{"a", "b", "é", " ", "\n", "*", "?", "[", "\\", "-", "\u202e", ".", "名"}
	name := string(rune('a' + rnd.IntN(26)))
	for range rnd.IntN(4) {
		name += pieces[rnd.IntN(len(pieces))]
	}
	return name
}

// randomData returns data with zeros in it, of a length near multiples of a block.
func randomData(rnd *rand.Rand) []byte {
	sizes := []int{0, 1, 4095, 4096, 4097, 100_000, 128 << 10, 128<<10 + 1, 1 << 20, 1<<20 + 12345, 3 << 20}
	n := sizes[rnd.IntN(len(sizes))]
	b := make([]byte, n)
	for off := 0; off < n; {
		run := min(n-off, 1+rnd.IntN(300_000))
		if rnd.IntN(3) > 0 {
			copy(b[off:off+run], pattern(run, rnd.Uint64()))
		}
		off += run
	}
	return b
}
