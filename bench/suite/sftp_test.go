package suite

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/haul-project/haul/bench/peer"
)

func TestSame(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	content := make([]byte, 2<<20+5)
	a, b := file("a", content), file("b", content)
	longer, other := file("longer", append(slices.Clone(content), 0)), slices.Clone(content)
	other[2<<20+1] = 1
	if err := same(a, b); err != nil {
		t.Error(err)
	}
	if whole := file("whole", content[:1<<20]); same(whole, whole) != nil {
		t.Error("a file of whole pieces differs from itself")
	}
	for name, path := range map[string]string{"longer": longer, "another byte": file("other", other), "not there": filepath.Join(dir, "none"), "empty": file("empty", nil)} {
		if same(a, path) == nil || same(path, a) == nil {
			t.Errorf("%s: no difference", name)
		}
	}
}

// A file counts when it is complete, wherever the client has put it.
func TestCount(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	put := func(dir, name, content string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"d0/a", "d0/b", "d1/c", "d1/e"} {
		put(from, name, "content of "+name)
	}
	put(to, "d0/a", "content of d0/a")
	put(to, "tree/d1/c", "content of d1/c")
	put(to, "d0/b", "content of")            // incomplete
	put(to, "d1/.e.part", "content of d1/e") // incomplete
	if n, err := count(from, to); n != 2 || err != nil {
		t.Errorf("%d files, %v; want 2", n, err)
	}
	put(to, "d0/b", "CONTENT of d0/b")
	if _, err := count(from, to); err == nil {
		t.Error("no error about a file with another content")
	}
}

// The pairs in a scenario exist, and can do it: a misspelt one would silently not be measured.
func TestPairsOfScenarios(t *testing.T) {
	known := peer.PairNames()
	for _, sc := range slices.Concat(sftpScenarios(), sftpSmoke()) {
		if len(sc.Who.names) == 0 || sc.act == nil || sc.Size == 0 {
			t.Errorf("%s is not complete: %+v", sc.Name, sc)
		}
		for _, name := range sc.Who.names {
			if !slices.Contains(known, name) {
				t.Errorf("%s: nobody is called %q", sc.Name, name)
			}
		}
	}
}

// If haul lacks the command for a scenario, that is reported. Others without it are of another
// kind.
func TestPairsFor(t *testing.T) {
	set := peer.Set{Pairs: []peer.Pair{{Name: "haul"}, {Name: "rclone"}, {Name: "another"}}}
	turns, refused := pairsFor(sftpMany("rtt0", "", 10, false), set)
	if len(turns) != 0 || len(refused) != 1 || refused[0].name != "haul" || refused[0].why != errNoCommand {
		t.Errorf("%v, refused %v", turns, refused)
	}
	c := (&Scenario{ways: []sftpWay{{name: "x"}, {name: "y", serverDelay: true}}}).contenders(&set.Pairs[0])
	if len(c) != 2 || c[0].Name != "haul, x" || c[1].Name != "haul, y" || c[0].serverDelay || !c[1].serverDelay {
		t.Errorf("two ways give %+v", c)
	}
}

// Document 5's table has each combination of overlap and TCP_NODELAY once.
func TestDocument5Ways(t *testing.T) {
	for _, sides := range [][]bool{{false}, {true, false}} {
		ways := document5Ways(sides)
		names := make(map[string]bool)
		for _, w := range ways {
			names[w.name] = true
		}
		if want := 4 * 2 * len(sides); len(ways) != want || len(names) != want {
			t.Errorf("%d ways with %d names, want %d of each", len(ways), len(names), want)
		}
	}
}
