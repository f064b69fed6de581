package treecopy_test

import (
	"os"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

const leftRandom = ".haul-ABCDEFGHIJKLMNOPQRSTUVWXYZ"

// Temporary files of other runs are not copied.
func TestLeftoversAreNotCopied(t *testing.T) {
	from, to := store.Mem(0), store.Mem(0)
	for _, name := range []string{"f", leftRandom + ".part", leftRandom + ".keep", leftRandom + ".mark",
		leftRandom + ".upload", leftRandom + ".record", leftRandom + ".other", ".haul-short.part"} {
		put(t, from, "d/"+name, []byte("x"))
	}
	r, _, err := copyAll(t.Context(), from, to, ".", recursive, "d")
	if err != nil || r.Copied != 3 || r.Found.Files != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	wantNames(t, to, "d", "d/f", "d/"+leftRandom+".other", "d/.haul-short.part")
}

// The next run that copies to a directory removes the files that a killed run left there: at once
// if locks show that no process uses them, and otherwise when they are old.
func TestLeftoversAreRemoved(t *testing.T) {
	for _, remote := range []bool{false, true} {
		tree, dir := dirTree(t)
		suffix := ".part"
		if remote {
			suffix = ".upload"
		}
		for _, d := range []string{"", "there/", "elsewhere/"} {
			if d != "" {
				mkdir(t, tree, d[:len(d)-1])
			}
			name := dir + "/" + d + leftRandom + suffix
			writeLeft(t, name, time.Now().Add(-48*time.Hour))
		}
		from, to := store.Mem(0), store.Tree(tree)
		put(t, from, "there/f", []byte("x"))
		if remote {
			to = remoteTree(t, tree, false)
		}
		for _, dry := range []bool{true, false} {
			o := treecopy.Options{Recursive: true, DryRun: dry}
			if _, _, err := copyAll(t.Context(), from, to, ".", o, "there"); err != nil {
				t.Error(err)
			}
			for d, want := range map[string]bool{"": dry, "there/": dry, "elsewhere/": true} {
				if got := fileThere(dir + "/" + d + leftRandom + suffix); got != want {
					t.Errorf("remote %v, dry %v: in %q it is there: %v", remote, dry, d, got)
				}
			}
		}
		// A file that becomes the target itself.
		if _, _, err := copyAll(t.Context(), from, to, "elsewhere/g", treecopy.Options{}, "there/f"); err != nil {
			t.Error(err)
		}
		if fileThere(dir + "/elsewhere/" + leftRandom + suffix) {
			t.Errorf("remote %v: beside a file it is there", remote)
		}
	}
}

func writeLeft(t *testing.T, name string, at time.Time) {
	t.Helper()
	if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, at, at); err != nil {
		t.Fatal(err)
	}
}

func fileThere(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
