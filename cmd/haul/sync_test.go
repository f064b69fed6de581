package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
)

// treeOf returns the files below a directory with their content, as NAME=CONTENT, sorted, and the
// names of directories without files.
func treeOf(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, name)
		rel = filepath.ToSlash(rel)
		switch {
		case err != nil:
			return err
		case d.Type().IsRegular():
			b, err := os.ReadFile(name)
			all = append(all, rel+"="+string(b))
			return err
		case d.IsDir():
			if list, err := os.ReadDir(name); err == nil && len(list) == 0 {
				all = append(all, rel+"/")
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// writeTree makes files of NAME=CONTENT, all of one time.
func writeTree(t *testing.T, dir, files string) {
	t.Helper()
	for f := range strings.FieldsSeq(files) {
		name, content, _ := strings.Cut(f, "=")
		name = filepath.Join(dir, filepath.FromSlash(name))
		writeFile(t, name, content)
		if err := os.Chtimes(name, time.Time{}, time.Unix(1_600_000_000, 0)); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	syncSource = "a=1 d/b=2 d/e/c=3 new/x=4 o.o=5"
	syncDest   = "a=1 d/b=9 d/gone=6 old/y=7 keep.o=8"
	syncWant   = "a=1 d/b=2 d/e/c=3 keep.o=8 new/x=4"
)

// testSync makes DEST like SOURCE, where both are given by the directories that have them and by
// their names on the command line.
func testSync(t *testing.T, run func(args ...string) (int, string, string), sourceDir, source, destDir, dest string) {
	t.Helper()
	writeTree(t, sourceDir, syncSource)
	writeTree(t, destDir, syncDest)
	older := time.Unix(1_500_000_000, 0)
	if err := os.Chtimes(filepath.Join(destDir, "d", "b"), older, older); err != nil {
		t.Fatal(err)
	}
	args := []string{"sync", "--delete", "--exclude", "*.o", source, dest}
	before := treeOf(t, destDir)
	code, out, msg := run(append(args, "-n")...)
	if code != 0 || !strings.Contains(out, "would delete\t1\t") || strings.Contains(out, "keep.o") || strings.Contains(out, "same") || !strings.Contains(msg, "would copy") || !strings.Contains(msg, "would delete ") {
		t.Errorf("dry: exit code %d\n%s%s", code, out, msg)
	}
	if code, _, msg := run(append(args, "--max-delete", "1")...); code != exitFailed || !strings.Contains(msg, "nothing was deleted") || !strings.Contains(msg, "--max-delete") {
		t.Errorf("--max-delete: exit code %d, %s", code, msg)
	}
	if got := treeOf(t, destDir); !strings.Contains(got, "old/y=7") || got == before {
		t.Errorf("after --max-delete: %s", got)
	}
	if code, _, msg := run(args...); code != 0 || !strings.Contains(msg, " deleted") || !strings.Contains(msg, "1 excluded") {
		t.Errorf("exit code %d, %s", code, msg)
	}
	if got := strings.Trim(strings.ReplaceAll(" "+treeOf(t, destDir), " old/", ""), " "); got != syncWant {
		t.Errorf("DEST has %s, want %s", got, syncWant)
	}
	if code, out, msg := run(append(args, "-v")...); code != 0 || !strings.Contains(msg, "0 files, 0 B") || strings.Contains(msg, "deleted") {
		t.Errorf("again: exit code %d, %s%s", code, out, msg)
	}
	if err := os.Remove(filepath.Join(sourceDir, "a")); err != nil {
		t.Fatal(err)
	}
	if code, _, msg := run(append(args, "--delete-excluded", "--checksum")...); code != 0 {
		t.Errorf("--delete-excluded: exit code %d, %s", code, msg)
	}
	if got := treeOf(t, destDir); strings.Contains(got, "keep.o") || strings.Contains(got, "a=1") {
		t.Errorf("after --delete-excluded: %s", got)
	}
}

func TestSyncSFTP(t *testing.T) {
	t.Run("put", func(t *testing.T) {
		l, here := startLab(t, nil), t.TempDir()
		testSync(t, l.haul, here, here, filepath.Join(l.dir, "to"), "lab:to")
	})
	t.Run("get", func(t *testing.T) {
		l, here := startLab(t, nil), t.TempDir()
		testSync(t, l.haul, filepath.Join(l.dir, "from"), "lab:from", here, here)
	})
	t.Run("on the server", func(t *testing.T) {
		l := startLab(t, nil)
		testSync(t, l.haul, filepath.Join(l.dir, "from"), "lab:from", filepath.Join(l.dir, "to"), "twin:to")
	})
}

func TestSyncHTTP(t *testing.T) {
	run := func(t *testing.T) func(args ...string) (int, string, string) {
		return func(args ...string) (int, string, string) { return haul(t, args...) }
	}
	t.Run("put", func(t *testing.T) {
		l, here := startWeb(t, nil), t.TempDir()
		for _, dir := range []string{"to/d/e", "to/new"} { // this server makes none
			if err := os.MkdirAll(filepath.Join(l.dir, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		testSync(t, run(t), here, here, filepath.Join(l.dir, "to"), l.URL+"/to")
	})
	t.Run("get", func(t *testing.T) {
		l, here := startWeb(t, nil), t.TempDir()
		testSync(t, run(t), filepath.Join(l.dir, "from"), l.URL+"/from", here, here)
	})
}

func TestSyncS3(t *testing.T) {
	b, here, back := servetest.NewBucket(t), t.TempDir(), t.TempDir()
	for _, v := range b.Env() {
		key, value, _ := strings.Cut(v, "=")
		t.Setenv(key, value)
	}
	must := func(want string, args ...string) {
		t.Helper()
		if code, _, msg := haul(t, append([]string{"sync", "--delete"}, args...)...); code != 0 || !strings.Contains(msg, want) {
			t.Errorf("%q: exit code %d, %s, want %q", args, code, msg, want)
		}
	}
	b.Put("other/stays", "1")
	b.Put("to/old/x", "2")
	b.Put("to/keep.o", "3")
	b.Put("to/d/b", "4")
	writeTree(t, here, "a=1 d/b=5 d/e/c=6")
	must("2 deleted", here, "s3://bucket/to") // in S3 directories go with their files
	must("0 files, 0 B", here, "s3://bucket/to")
	writeTree(t, back, "gone/y=7 a=1")
	must("2 deleted", "s3://bucket/to", back)
	if got := treeOf(t, back); got != "a=1 d/b=5 d/e/c=6" {
		t.Errorf("DEST has %s", got)
	}
	must("0 files, 0 B", "s3://bucket/to", back)
	if text, ok := b.Content("other/stays"); !ok || text != "1" {
		t.Errorf("outside of DEST: %q, %v", text, ok)
	}
}

// A web server that lists no directories has files that haul cannot find.
func TestSyncUnlisted(t *testing.T) {
	l, here := startWeb(t, map[string]string{"to/old": "1"}), t.TempDir()
	writeTree(t, here, "a=1")
	l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/") {
			http.NotFound(w, r)
		}
		return strings.HasSuffix(r.URL.Path, "/")
	})
	code, _, msg := haul(t, "sync", "--delete", here, l.URL+"/to")
	if code == 0 || !strings.Contains(msg, "list what the target has") {
		t.Errorf("exit code %d, %s", code, msg)
	}
	wantFile(t, filepath.Join(l.dir, "to", "a"), "1")
}

// A file with a new name is renamed on the server.
func TestSyncMoved(t *testing.T) {
	l, here := startLab(t, nil), t.TempDir()
	big := strings.Repeat("0123456789abcdef", 20_000)
	writeTree(t, here, "new/name="+big)
	writeTree(t, l.dir, "to/old="+big)
	code, _, msg := l.haul("sync", "--delete", here, "lab:to")
	if code != 0 || !strings.Contains(msg, "1 renamed") || !strings.Contains(msg, "0 files, 0 B") {
		t.Errorf("exit code %d, %s", code, msg)
	}
	if got := treeOf(t, filepath.Join(l.dir, "to")); got != "new/name="+big {
		t.Errorf("DEST has %.100s", got)
	}
}

// A server that has both directories copies its files itself.
func TestSyncOnOneServer(t *testing.T) {
	l := startLab(t, nil)
	big := strings.Repeat("0123456789abcdef", 200_000)
	writeTree(t, l.dir, "from/big="+big+" from/d/small=1 to/big=old")
	l.must("sync", "lab:from", "twin:to")
	if got := treeOf(t, filepath.Join(l.dir, "to")); got != "big="+big+" d/small=1" {
		t.Errorf("DEST has %.100s", got)
	}
	if n := l.server.Counters().Sent; n > int64(len(big))/10 {
		t.Errorf("the server sent %d bytes of files", n)
	}
}

// A command that makes no sense is refused before anything is done, and an empty SOURCE deletes
// nothing.
func TestSyncRefused(t *testing.T) {
	l, here := startLab(t, map[string]string{"d/f": "1", "d/sub/g": "2"}), t.TempDir()
	rules := filepath.Join(here, "rules")
	writeFile(t, rules, "- a\nb\n")
	empty := filepath.Join(here, "empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args string
		code int
		says string
	}{
		{"HERE HERE", exitUsage, "both are on this machine"},
		{"HERE", exitUsage, "DEST is missing"},
		{"HERE tftp://h/d", exitUsage, "TFTP lists no directories"},
		{"HERE/rules lab:d", exitUsage, "not a directory"},
		{"HERE/none lab:d", exitLocal, "no such file"},
		{"lab:none HERE", exitNotFound, "lab:none"},
		{"lab:d/f HERE", exitFailed, "not a directory"},
		{"lab:d twin:d", exitUsage, "one is in the other"},
		{"lab:d twin:d/sub", exitUsage, "one is in the other"},
		{"lab:d/sub/new lab:d", exitUsage, "one is in the other"},
		{"--max-delete 1 HERE lab:d", exitUsage, "--max-delete: it is for --delete"},
		{"--delete-excluded HERE lab:d", exitUsage, "it is for --delete"},
		{"--delete --max-delete -2 HERE lab:d", exitUsage, "0 or more"},
		{"--delete --no-clobber HERE lab:d", exitUsage, "--no-clobber"},
		{"--checksum --size-only HERE lab:d", exitUsage, "choose one"},
		{"--exclude [ HERE lab:d", exitUsage, "--exclude: pattern"},
		{"--include a**b HERE lab:d", exitUsage, "between slashes"},
		{"--filter-from HERE/rules HERE lab:d", exitUsage, "line 2"},
		{"--filter-from HERE/none HERE lab:d", exitLocal, "--filter-from"},
		{"--delete HERE/empty lab:d", exitFailed, "--force"},
		{"--delete HERE/empty lab:d -n", exitFailed, "--force"},
	}
	for _, test := range tests {
		words := strings.Fields(strings.ReplaceAll(test.args, "HERE", here))
		code, _, msg := l.haul(append([]string{"sync"}, words...)...)
		if code != test.code || !strings.Contains(msg, test.says) {
			t.Errorf("sync %s: exit code %d, %s; want %d and %q", test.args, code, msg, test.code, test.says)
		}
	}
	if code, _, msg := haul(t, "sync", "-p", here, "http://127.0.0.1:1/d"); code != exitUsage || !strings.Contains(msg, "cannot set permissions") {
		t.Errorf("sync -p over HTTP: exit code %d, %s", code, msg)
	}
	if got := treeOf(t, filepath.Join(l.dir, "d")); got != "f=1 sub/g=2" {
		t.Errorf("the server has %s", got)
	}
	l.must("sync", "--delete", "--force", empty, "lab:d")
	if got := treeOf(t, filepath.Join(l.dir, "d")); got != "./" {
		t.Errorf("with --force the server has %s", got)
	}
}

// --update leaves alone what is newer in DEST, and --size-only what has the same size: for get and
// put as well.
func TestSyncUpdate(t *testing.T) {
	l, w, here := startLab(t, nil), startWeb(t, map[string]string{"to/sub/x": ""}), t.TempDir()
	const source, dest = "newer=new older=new same=new longer=longer", "newer=old older=old same=old longer=old"
	writeTree(t, here, source)
	for i, test := range []struct{ args, want, says string }{
		{"sync --update HERE lab:TO", "longer=longer newer=old older=new same=old", "1 left alone (newer than their source)"},
		{"sync --size-only HERE lab:TO", "longer=longer newer=old older=old same=old", "3 unchanged"},
		{"sync --size-only --update HERE lab:TO", "longer=longer newer=old older=old same=old", "2 unchanged; 1 left alone"},
		{"put -r --update HERE/. lab:TO", "longer=longer newer=old older=new same=new", "1 left alone"},
		{"put -r --unchanged=size HERE/. lab:TO", "longer=longer newer=old older=old same=old", "3 unchanged"},
		{"sync --size-only HERE WEB/TO", "longer=longer newer=old older=old same=old", "3 unchanged"},
		{"put -r --unchanged=size HERE/. WEB/TO", "longer=longer newer=old older=old same=old", "3 unchanged"},
		{"put -r --update HERE/. WEB/TO", "longer=longer newer=old older=new same=new", "1 left alone"},
	} {
		to := fmt.Sprint("to", i)
		dir, run := filepath.Join(l.dir, to), l.haul
		if strings.Contains(test.args, "WEB") {
			dir, run = filepath.Join(w.dir, to), func(args ...string) (int, string, string) { return haul(t, args...) }
		}
		writeTree(t, dir, dest)
		for name, ahead := range map[string]time.Duration{"newer": time.Hour, "older": -time.Hour} {
			at := time.Unix(1_600_000_000, 0).Add(ahead)
			if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
				t.Fatal(err)
			}
		}
		args := strings.Fields(strings.NewReplacer("HERE", here, "TO", to, "WEB", w.URL).Replace(test.args))
		if code, _, msg := run(args...); code != 0 || !strings.Contains(msg, test.says) {
			t.Errorf("%s: exit code %d, %s, want %q", test.args, code, msg, test.says)
		}
		if got := treeOf(t, dir); got != test.want {
			t.Errorf("%s: DEST has %s, want %s", test.args, got, test.want)
		}
	}
	for _, args := range [][]string{{"get", "--update", "lab:f", "-"}, {"put", "--unchanged", here, w.URL + "/to/"}} {
		if code, _, msg := l.haul(args...); code != exitUsage {
			t.Errorf("%q: exit code %d, %s", args, code, msg)
		}
	}
}

// Of sources that do not exist, nothing is printed but the errors.
func TestNothingToSumUp(t *testing.T) {
	l, w, here := startLab(t, nil), startWeb(t, nil), t.TempDir()
	for _, test := range []struct {
		args  string
		lines int
	}{
		{"sync lab:none HERE", 1}, {"sync --delete -n lab:none HERE", 1}, {"sync HERE/none lab:", 1}, {"sync WEB/none HERE", 1},
		{"get lab:none HERE", 1}, {"get -r lab:none lab:neither HERE", 2}, {"get WEB/none HERE", 1}, {"put HERE/none lab:", 1},
		{"cp lab:none lab:other", 1},
	} {
		args := strings.Fields(strings.NewReplacer("HERE", here, "WEB", w.URL).Replace(test.args))
		run := l.haul
		if strings.Contains(test.args, "WEB") {
			run = func(args ...string) (int, string, string) { return haul(t, args...) }
		}
		if code, out, msg := run(args...); code == 0 || out != "" || len(strings.Split(strings.TrimSpace(msg), "\n")) != test.lines {
			t.Errorf("%s: exit code %d, %s%s", test.args, code, out, msg)
		}
	}
}

// get and put leave out files by the same rules, and leave existing ones alone.
func TestFiltersOfGetAndPut(t *testing.T) {
	l, here := startLab(t, nil), t.TempDir()
	writeTree(t, l.dir, "from/a.c=1 from/a.o=2 from/d/b.c=3 from/build/c.c=4 from/tmp/x.o=5")
	rules := filepath.Join(here, "rules")
	writeFile(t, rules, "# what is made\n- build/\n+ *.c\n- **\n")
	to := filepath.Join(here, "to")
	l.must("get", "-r", "--filter-from", rules, "lab:from", to)
	if got, want := treeOf(t, to), "a.c=1 d/b.c=3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	writeFile(t, filepath.Join(to, "a.c"), "mine")
	if code, _, msg := l.haul("get", "-r", "--no-clobber", "--include", "*.c", "lab:from/.", to); code != 0 || !strings.Contains(msg, "2 left alone") {
		t.Errorf("exit code %d, %s", code, msg)
	}
	if got, want := treeOf(t, to), "a.c=mine build/c.c=4 d/b.c=3"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if code, _, msg := l.haul("put", "--no-clobber", filepath.Join(to, "a.c"), "lab:from/a.c"); code != 0 || !strings.Contains(msg, "1 left alone") {
		t.Errorf("exit code %d, %s", code, msg)
	}
	wantFile(t, filepath.Join(l.dir, "from", "a.c"), "1")
	for _, args := range [][]string{{"get", "--exclude", "x", "lab:from/a.c", to}, {"get", "--no-clobber", "lab:from/a.c", "-"}} {
		if code, _, msg := l.haul(args...); code != exitUsage {
			t.Errorf("%q: exit code %d, %s", args, code, msg)
		}
	}
}

// A directory of this machine may be a path without a dot or a slash in front.
func TestSyncRelativePath(t *testing.T) {
	l := startLab(t, map[string]string{})
	here := t.TempDir()
	writeTree(t, here, "photos/2026/a=1")
	t.Chdir(here)
	l.must("sync", "photos/2026", "lab:copy")
	l.must("sync", "lab:copy", "photos/back")
	if got := treeOf(t, here); got != "photos/2026/a=1 photos/back/a=1" {
		t.Errorf("%s", got)
	}
}
