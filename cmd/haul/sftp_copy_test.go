package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
)

// treeFiles is a tree with some of everything.
func treeFiles() map[string]string {
	files := map[string]string{
		"top": "top", "empty": "", "a b%20": "spaces", ".dot": "hidden", "sub/x.log": "x", "sub/y.log": "y",
		"sub/deep/er/z.log": "z", "sub/big": strings.Repeat("0123456789abcdef", 70_000), "grün/日本": "names",
	}
	for i := range 40 {
		files[fmt.Sprintf("many/%02d", i)] = strings.Repeat("m", i*37)
	}
	return files
}

// wantTree checks that a directory holds these files and no others.
func wantTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		rel = filepath.ToSlash(rel)
		found = append(found, rel)
		if content, ok := files[rel]; ok {
			wantFile(t, name, content)
		} else {
			t.Errorf("%s is too much", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range files {
		if !slices.Contains(found, name) {
			t.Errorf("%s is missing in %s", name, dir)
		}
	}
}

// prefixed returns the same files in a directory.
func prefixed(dir string, files map[string]string) map[string]string {
	all := map[string]string{}
	for name, content := range files {
		all[dir+"/"+name] = content
	}
	return all
}

func TestSFTPGet(t *testing.T) {
	files := treeFiles()
	l := startLab(t, files)
	for _, c := range []struct {
		args string // HERE is a new directory
		want map[string]string
	}{
		{"lab:top HERE", map[string]string{"top": "top"}},
		{"lab:top HERE/", map[string]string{"top": "top"}},
		{"lab:/top HERE/new", map[string]string{"new": "top"}},
		{"lab:empty HERE/new", map[string]string{"new": ""}},
		{"lab:top HERE/made/", map[string]string{"made/top": "top"}},
		{l.url("/a%20b%2520") + " HERE", map[string]string{"a b%20": "spaces"}},
		{"lab:top twin:sub/x.log HERE", map[string]string{"top": "top", "x.log": "x"}},
		{"lab:sub/*.log HERE", map[string]string{"x.log": "x", "y.log": "y"}},
		{"lab:sub/**/*.log HERE", map[string]string{"x.log": "x", "y.log": "y", "z.log": "z"}},
		{"-r lab:sub HERE", prefixed("sub", filesIn(files, "sub"))},
		{"-r lab:sub/ HERE", prefixed("sub", filesIn(files, "sub"))},
		{"-r lab:sub/. HERE", filesIn(files, "sub")},
		{"-r lab:sub HERE/other", prefixed("other", filesIn(files, "sub"))},
		{"-r lab: HERE", files},
		{"-r " + l.url("/") + " HERE", files},
		{"-r " + l.url("/~/sub/../many") + " HERE", prefixed("many", filesIn(files, "many"))},
		{"-r --parallel 1 lab:sub HERE", prefixed("sub", filesIn(files, "sub"))},
		{"-r --parallel 64 lab:many/. HERE", filesIn(files, "many")},
		{"-r --in-place lab:sub HERE", prefixed("sub", filesIn(files, "sub"))},
		{"-r --verify --sparse --fsync -p lab:sub HERE", prefixed("sub", filesIn(files, "sub"))},
		{"--limit 100M lab:sub/big HERE", map[string]string{"big": files["sub/big"]}},
		{"--dry-run -r lab:sub HERE", nil},
	} {
		here := t.TempDir()
		args := append([]string{"get"}, strings.Fields(strings.ReplaceAll(c.args, "HERE", filepath.ToSlash(here)))...)
		code, out, msg := l.haul(args...)
		if code != 0 {
			t.Errorf("haul %q: exit code %d, %s", args, code, msg)
		}
		wantTree(t, here, c.want)
		if strings.Contains(c.args, "dry-run") && (!strings.Contains(out, "sub/deep/er/z.log") || !strings.Contains(msg, "would copy 4 files")) {
			t.Errorf("--dry-run prints\n%s\n%s", out, msg)
		}
	}
	here := t.TempDir()
	t.Chdir(here)
	if code, _, msg := l.haul("get", "-q", "lab:top"); code != 0 || msg != "" {
		t.Errorf("get -q: exit code %d, says %q", code, msg)
	}
	wantTree(t, here, map[string]string{"top": "top"})
	if code, _, msg := l.haul("get", "-r", "lab:many"); code != 0 || !strings.Contains(msg, "40 files, 28.9 kB in ") {
		t.Errorf("the summary: exit code %d, says %q", code, msg)
	}
}

// filesIn returns what of some files is in a directory.
func filesIn(files map[string]string, dir string) map[string]string {
	some := map[string]string{}
	for name, content := range files {
		if rest, ok := strings.CutPrefix(name, dir+"/"); ok {
			some[rest] = content
		}
	}
	return some
}

func TestSFTPPut(t *testing.T) {
	files := treeFiles()
	here := t.TempDir()
	for name, content := range files {
		writeFile(t, filepath.Join(here, "tree", name), content)
	}
	t.Chdir(filepath.Join(here, "tree"))
	for _, c := range []struct {
		args string
		want map[string]string
	}{
		{"top lab:", map[string]string{"top": "top"}},
		{"./top lab:new", map[string]string{"new": "top"}},
		{"top lab:/new", map[string]string{"new": "top"}},
		{"empty lab:new", map[string]string{"new": ""}},
		{"top lab:made/", map[string]string{"made/top": "top"}},
		{"top empty lab:", map[string]string{"top": "top", "empty": ""}},
		{"top sub/x.log lab:made/", map[string]string{"made/top": "top", "made/x.log": "x"}},
		{"sub/*.log lab:", map[string]string{"x.log": "x", "y.log": "y"}}, // where no shell has done it
		{"-r sub lab:", prefixed("sub", filesIn(files, "sub"))},
		{"-r sub/ lab:other", prefixed("other", filesIn(files, "sub"))},
		{"-r sub/. lab:", filesIn(files, "sub")},
		{"-r . lab:", files},
		{"-r ../tree lab:", prefixed("tree", files)},
		{"-r sub many lab:in/", prefixed("in", filesOf(files, "sub", "many"))},
		{"-r --in-place -p --verify --sparse --fsync sub lab:", prefixed("sub", filesIn(files, "sub"))},
		{"-r --parallel 1 many lab:", prefixed("many", filesIn(files, "many"))},
		{"-n -r sub lab:", nil},
	} {
		l := startLab(t, nil)
		args := append([]string{"put"}, strings.Fields(c.args)...)
		if code, _, msg := l.haul(args...); code != 0 {
			t.Errorf("haul %q: exit code %d, %s", args, code, msg)
		}
		wantTree(t, l.dir, c.want)
	}
}

func filesOf(files map[string]string, dirs ...string) map[string]string {
	all := map[string]string{}
	for _, d := range dirs {
		maps.Copy(all, prefixed(d, filesIn(files, d)))
	}
	return all
}

func TestSFTPStreams(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 100_000)
	l := startLab(t, map[string]string{"f": long, "x1": "one", "dir/g": ""})
	if code, out, msg := l.haul("get", "lab:f", "-"); code != 0 || out != long || !strings.Contains(msg, "f: 1.6 MB in ") {
		t.Errorf("get to standard output: exit code %d, %d bytes, %s", code, len(out), msg)
	}
	if code, out, msg := l.haul("get", "-q", "lab:x?", "-"); code != 0 || out != "one" || msg != "" {
		t.Errorf("get of a pattern: exit code %d, %q, %s", code, out, msg)
	}
	if code, _, msg := l.haul("get", "lab:f", os.DevNull); code != 0 {
		t.Errorf("get to a device: exit code %d, %s", code, msg)
	}
	put := func(content string, args ...string) (int, string) {
		t.Helper()
		var errs lockedBuffer
		cmd := newRoot()
		cmd.SetArgs(l.args(append([]string{"put"}, args...)...))
		cmd.SetIn(strings.NewReader(content))
		cmd.SetErr(&errs)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			return exitCode(err), err.Error()
		}
		return 0, errs.String()
	}
	for _, name := range []string{"lab:new", "lab:/new2", "lab:dir/new", l.url("/dir/n%20m")} {
		if code, msg := put(long, "-", name); code != 0 || !strings.Contains(msg, "1.6 MB in ") {
			t.Errorf("put - %s: exit code %d, %s", name, code, msg)
		}
	}
	for _, name := range []string{"new", "new2", "dir/new", "dir/n m"} {
		wantFile(t, filepath.Join(l.dir, name), long)
	}
	if code, msg := put("short", "-q", "--in-place", "--limit", "1G", "-", "lab:new"); code != 0 || msg != "" {
		t.Errorf("put - in place: exit code %d, %s", code, msg)
	}
	wantFile(t, filepath.Join(l.dir, "new"), "short")
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"put - lab:", exitUsage, "name"},
		{"put - lab:dir/", exitUsage, "name"},
		{"put - lab:dir", exitRefused, "directory"},
		{"put - lab:no/such", exitNotFound, "no/such"},
		{"put - f lab:", exitUsage, "standard input"},
		{"put -r - lab:x", exitUsage, "--recursive"},
		{"put --continue - lab:x", exitUsage, "--continue"},
		{"get lab:f lab:x1 -", exitUsage, "several files"},
		{"get lab:* -", exitUsage, "match"},
		{"get lab:none -", exitNotFound, "none"},
		{"get lab:dir -", exitRefused, "directory"},
		{"get --verify lab:f -", exitUsage, "--verify"},
	} {
		words := strings.Fields(c.args)
		if code, _, msg := l.haul(words...); code != c.code || !strings.Contains(msg, c.says) {
			t.Errorf("haul %s: exit code %d, want %d, and %q: %s", c.args, code, c.code, c.says, msg)
		}
	}
}

// A copy to standard output is not faster than --limit says.
func TestSFTPStreamLimit(t *testing.T) {
	l := startLab(t, map[string]string{"f": strings.Repeat("x", 300_000)})
	began := time.Now()
	if out := l.must("get", "--limit", "1MB", "lab:f", "-"); len(out) != 300_000 {
		t.Errorf("%d bytes", len(out))
	}
	if took := time.Since(began); took < 150*time.Millisecond {
		t.Errorf("300 kB at 1 MB/s took %v", took)
	}
}

func TestSFTPCopyExitCodes(t *testing.T) {
	l := startLab(t, map[string]string{"f": "content", "dir/g": "", "both/f": ""})
	readOnly := startLabWith(t, labOptions{tree: store.ReadOnly}, map[string]string{"f": "content"})
	here := filepath.ToSlash(t.TempDir())
	writeFile(t, here+"/mine", "x")
	writeFile(t, here+"/adir/x", "x")
	t.Chdir(here)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"get lab:none .", exitNotFound, "none"},
		{"get lab:no/such/f .", exitNotFound, "no/such/f"},
		{"get lab:*.none .", exitNotFound, "*.none"},
		{"get lab:dir .", exitFailed, "-r"},
		{"get lab:f lab:none .", exitNotFound, "none"},
		{"get lab:f no/such/dir/f", exitLocal, "no/such/dir"},
		{"get lab:f lab:dir/g mine", exitUsage, "directory"},
		{"get lab:f adir/x/y", exitLocal, "adir/x"},
		{"get lab:f lab:both/f .", exitFailed, "both/f"},
		{"get lab:../../f .", 0, ""}, // of a root there is nothing above
		{"get f .", exitUsage, "local file"},
		{"get lab:f tftp://127.0.0.1/f .", exitUsage, "the same protocol"},
		{"get lab:f lab:", exitUsage, "get writes to this machine"},
		{"get lab:f -o mine", exitUsage, "last argument of haul get"},
		{"get --blksize 512 lab:f", exitUsage, "--blksize: a flag of TFTP, not of SFTP"},
		{"get --trace --timeout 1s lab:f", exitUsage, "--timeout, --trace"},
		{"get --netascii=false lab:f", exitUsage, "--netascii"},
		{"put --windowsize 4 mine lab:", exitUsage, "--windowsize"},
		{"get --parallel 0 lab:f", exitUsage, "--parallel"},
		{"get --parallel 65 lab:f", exitUsage, "64"},
		{"get --limit x lab:f", exitUsage, "--limit"},
		{"get --unchanged=date lab:f", exitUsage, "time, size or hash"},
		{"get --unchanged= lab:f", exitUsage, "time, size or hash"},
		{"get --links=all lab:f", exitUsage, "skip, keep or follow"},
		{"put none lab:", exitLocal, "none"},
		{"put adir lab:", exitFailed, "-r"},
		{"put mine adir/x lab:f", exitFailed, "a file is in the way"},
		{"put mine lab:no/such/f", exitNotFound, "no/such"},
		{"put lab:f lab:g", exitUsage, "local"},
		{"put mine mine", exitUsage, "local"},
		{"put mine ftp://host/a", exitUsage, "does not speak ftp"},
	} {
		args := strings.Fields(c.args)
		if code, _, msg := l.haul(args...); code != c.code || !strings.Contains(msg, c.says) {
			t.Errorf("haul %s: exit code %d, want %d, and %q: %s", c.args, code, c.code, c.says, msg)
		}
	}
	// The same flags where they do not fit.
	for args, flags := range map[string]string{
		"get -r tftp://127.0.0.1/f":                 "--recursive: a flag of SFTP, HTTP and S3",
		"get --continue tftp://127.0.0.1/f":         "--continue: a flag of SFTP, HTTP and S3",
		"get -o User=x -i f tftp://127.0.0.1/f":     "--identity, --option: a flag of SFTP",
		"put -p mine tftp://127.0.0.1/f":            "--preserve: a flag of SFTP, HTTP and S3",
		"put --batch=false mine tftp://127.0.0.1/f": "--batch: a flag of SFTP, HTTP and S3",
	} {
		want := flags + ", not of TFTP"
		if code, _, msg := haul(t, strings.Fields(args)...); code != exitUsage || !strings.Contains(msg, want) {
			t.Errorf("haul %s: exit code %d, want %d, and %q: %s", args, code, exitUsage, want, msg)
		}
	}
	for _, args := range []string{"put mine lab:", "put mine lab:f", "put --in-place mine lab:f", "put -r adir lab:"} {
		if code, _, msg := readOnly.haul(strings.Fields(args)...); code != exitRefused {
			t.Errorf("haul %s: exit code %d, want %d: %s", args, code, exitRefused, msg)
		}
	}
	wantFile(t, filepath.Join(readOnly.dir, "f"), "content")
	if left, _ := filepath.Glob(filepath.Join(here, ".haul*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestSFTPPreserveAndUnchanged(t *testing.T) {
	l := startLab(t, map[string]string{"d/old": "old", "d/run": "run"})
	when := time.Date(2011, 12, 13, 14, 15, 16, 0, time.UTC)
	for _, name := range []string{"d/old", "d/run", "d"} {
		if err := os.Chtimes(filepath.Join(l.dir, name), when, when); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(l.dir, "d/run"), 0o750); err != nil {
		t.Fatal(err)
	}
	here := t.TempDir()
	l.must("get", "-rp", "lab:d", here)
	for _, name := range []string{"d", "d/old", "d/run"} {
		info, err := os.Stat(filepath.Join(here, name))
		if err != nil || !info.ModTime().Equal(when) {
			t.Errorf("%s is of %v, %v", name, info, err)
		}
	}
	if info, err := os.Stat(filepath.Join(here, "d/run")); runtime.GOOS != "windows" && (err != nil || info.Mode().Perm() != 0o750) {
		t.Errorf("%v, %v", info, err)
	}
	code, _, msg := l.haul("get", "-rp", "--unchanged", "lab:d", here)
	if code != 0 || !strings.Contains(msg, "0 files, 0 B") || !strings.Contains(msg, "2 unchanged") {
		t.Errorf("--unchanged: exit code %d, %s", code, msg)
	}
	// Another content, of the same size and time: only the hash differs.
	writeFile(t, filepath.Join(here, "d/old"), "new")
	if err := os.Chtimes(filepath.Join(here, "d/old"), when, when); err != nil {
		t.Fatal(err)
	}
	l.must("get", "-rp", "--unchanged", "lab:d", here)
	wantFile(t, filepath.Join(here, "d/old"), "new")
	if code, _, msg := l.haul("get", "-rp", "--unchanged=hash", "lab:d", here); code != 0 || !strings.Contains(msg, "1 file, 3 B") || !strings.Contains(msg, "1 unchanged") {
		t.Errorf("--unchanged=hash: exit code %d, %s", code, msg)
	}
	wantFile(t, filepath.Join(here, "d/old"), "old")
	if code, _, msg := l.haul("put", "-rp", "--unchanged=hash", filepath.Join(here, "d"), "lab:"); code != 0 || !strings.Contains(msg, "2 unchanged") {
		t.Errorf("put --unchanged=hash: exit code %d, %s", code, msg)
	}
}

func TestSFTPLinks(t *testing.T) {
	l := startLab(t, map[string]string{"d/f": "content"})
	if err := os.Symlink("f", filepath.Join(l.dir, "d/link")); err != nil {
		t.Skip(err)
	}
	for flag, want := range map[string]string{"skip": "", "keep": "link", "follow": "file"} {
		here := t.TempDir()
		code, _, msg := l.haul("get", "-r", "--links", flag, "lab:d", here)
		if code != 0 {
			t.Errorf("--links %s: exit code %d, %s", flag, code, msg)
		}
		got := ""
		if info, err := os.Lstat(filepath.Join(here, "d/link")); err == nil {
			if got = "file"; info.Mode().Type() == fs.ModeSymlink {
				got = "link"
			}
		}
		if got != want || flag == "skip" && !strings.Contains(msg, "1 skipped") {
			t.Errorf("--links %s: %q, want %q; %s", flag, got, want, msg)
		}
	}
	// A link that is named is followed, and keeps its name.
	here := t.TempDir()
	l.must("get", "lab:d/link", here)
	wantFile(t, filepath.Join(here, "link"), "content")
	if err := os.Symlink(filepath.Join(here, "link"), filepath.Join(here, "way")); err != nil {
		t.Fatal(err)
	}
	l.must("put", filepath.Join(here, "way"), "lab:")
	wantFile(t, filepath.Join(l.dir, "way"), "content")
	// And one in the place of the target leads where it leads: it is the user's.
	elsewhere := filepath.Join(t.TempDir(), "f")
	writeFile(t, elsewhere, "old")
	if err := os.Symlink(elsewhere, filepath.Join(here, "out")); err != nil {
		t.Fatal(err)
	}
	l.must("get", "lab:d/f", filepath.Join(here, "out"))
	wantFile(t, elsewhere, "content")
}

// An interrupted copy leaves no half file under a real name, says what is kept, and
// resumes there with --continue.
func TestSFTPInterrupted(t *testing.T) {
	t.Parallel() // it waits most of the time
	content := bytes.Repeat([]byte("0123456789abcdef"), 4<<20/16)
	for _, flag := range []string{"--fsync", "--continue"} {
		here := t.TempDir()
		l := startLab(t, map[string]string{"big": string(content)})
		ctx, cancel := context.WithCancel(t.Context())
		var errs lockedBuffer
		cmd := newRoot()
		cmd.SetArgs(l.args("get", flag, "--limit", "512k", "lab:big", here))
		cmd.SetErr(&errs)
		ended := make(chan error, 1)
		go func() { ended <- cmd.ExecuteContext(ctx) }()
		awaitHidden(t, here, "", func(b []byte) bool { return bytes.HasPrefix(b, content[:1<<10]) })
		cancel()
		err := <-ended
		if exitCode(err) != exitInterrupted {
			t.Errorf("%s: exit code %d, %v", flag, exitCode(err), err)
		}
		says, left := "with --continue they would have been kept", 0
		if flag == "--continue" {
			says, left = "the same command resumes there", 1
		}
		if !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%s: it does not say %q: %v", flag, says, err)
		}
		if _, err := os.Stat(filepath.Join(here, "big")); err == nil {
			t.Errorf("%s: it has its name, and is not whole", flag)
		}
		parts, _ := filepath.Glob(filepath.Join(here, ".haul*"))
		if min(len(parts), 1) != left {
			t.Errorf("%s: left behind: %q", flag, parts)
		}
		code, _, msg := l.haul("get", "--continue", "lab:big", here)
		if code != 0 || strings.Contains(msg, "were there before") != (left == 1) {
			t.Errorf("%s: the next run: exit code %d, %s", flag, code, msg)
		}
		wantTree(t, here, map[string]string{"big": string(content)})
	}
}

// awaitHidden waits until a hidden file in a directory holds enough. The file's name ends
// as given.
func awaitHidden(t *testing.T, dir, end string, enough func([]byte) bool) {
	t.Helper()
	for late := time.Now().Add(labPatience); time.Now().Before(late); time.Sleep(2 * time.Millisecond) {
		names, _ := filepath.Glob(filepath.Join(dir, ".haul*"+end))
		for _, n := range names {
			if b, err := os.ReadFile(n); err == nil && enough(b) {
				return
			}
		}
	}
	t.Fatal("nothing comes")
}

// Links that lead back are errors of those links, and the rest is copied once.
func TestLinksFollowedBack(t *testing.T) {
	l := startLab(t, map[string]string{"d/f": "f", "d/s/g": "g"})
	for _, name := range []string{"a", "b"} {
		if err := os.Symlink(".", filepath.Join(l.dir, "d", name)); err != nil {
			t.Skip(err)
		}
	}
	want := map[string]string{"d/f": "f", "d/s/g": "g"}
	check := func(source, dir string, args ...string) {
		t.Helper()
		code, _, msg := l.haul(args...)
		if code != exitFailed || !strings.Contains(msg, source+"/a: leads back to a directory that it is in") || !strings.Contains(msg, "2 failed") {
			t.Errorf("haul %q: exit code %d, %s", args, code, msg)
		}
		wantTree(t, dir, want)
	}
	to := t.TempDir()
	check("get lab:d", to, "get", "-r", "--links", "follow", "lab:d", to)
	from := filepath.Join(l.dir, "d")
	check("put "+from, filepath.Join(l.dir, "new"), "put", "-r", "--links", "follow", from, "lab:new/")
}

// A dry run prints the names as they could be typed, sorted.
func TestDryRunNames(t *testing.T) {
	l := startLab(t, map[string]string{"d/b c": "b", "d/a": "a", "d/s/e": "e"})
	w := startWeb(t, map[string]string{"d/b c": "b", "d/a": "a"})
	to := t.TempDir()
	here := func(name string) string { return filepath.Join(to, filepath.FromSlash(name)) }
	writeFile(t, here("x/b"), "b")
	writeFile(t, here("x/a"), "a")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"get", "lab:d/*", to}, "would copy\t1\tlab:d/a\t" + here("a") + "\nwould copy\t1\tlab:d/b c\t" + here("b c") + "\n"},
		{[]string{"get", "-r", l.url("/d/s"), to}, "would copy\t1\t" + l.url("/d/s/e") + "\t" + here("s/e") + "\nwould make\t0\t" + l.url("/d/s") + "\t" + here("s") + "\n"},
		{[]string{"put", "-r", here("x"), "lab:new/"}, "would copy\t1\t" + here("x/a") + "\tlab:new/x/a\nwould copy\t1\t" + here("x/b") + "\tlab:new/x/b\nwould make\t0\t" + here("x") + "\tlab:new/x\n"},
		{[]string{"put", here("x/a"), l.url("/d/")}, "would copy\t1\t" + here("x/a") + "\t" + l.url("/d/a") + "\n"},
		{[]string{"get", w.URL + "/d/b%20*", to}, "would copy\t1\t" + w.URL + "/d/b%20c\t" + here("b c") + "\n"},
	} {
		args := append([]string{c.args[0], "-n"}, c.args[1:]...)
		var out, msg string
		if strings.HasPrefix(c.args[1], "http") {
			_, out, msg = haul(t, args...)
		} else {
			_, out, msg = l.haul(args...)
		}
		got := strings.Split(strings.TrimSpace(out), "\n")
		want := strings.Split(strings.TrimSpace(c.want), "\n")
		if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Errorf("%q prints\n%swant\n%s%s", args, out, c.want, msg)
		}
		names := make([]string, len(got))
		for i, line := range got {
			names[i] = strings.Split(line+"\t\t\t", "\t")[2]
		}
		if !slices.IsSorted(names) {
			t.Errorf("%q is not sorted:\n%s", args, out)
		}
	}
}

// -v names what is copied, and what is left out with the reason.
func TestVerbose(t *testing.T) {
	l := startLab(t, map[string]string{"d/a": "a"})
	if err := os.Symlink("a", filepath.Join(l.dir, "d", "link")); err != nil {
		t.Skip(err)
	}
	to := t.TempDir()
	code, _, msg := l.haul("get", "-v", "-r", "lab:d", to)
	for _, want := range []string{"copied lab:d/a -> " + filepath.Join(to, "d", "a") + "\n", "skipped lab:d/link: a symbolic link\n", "1 skipped (symlinks, special files)"} {
		if code != 0 || !strings.Contains(msg, want) {
			t.Errorf("exit code %d, no %q in %s", code, want, msg)
		}
	}
	// The target is named as it was typed, also where it could be another run's.
	t.Chdir(to)
	for there, flags := range map[string]string{"one": "-rv", "two": "-rv --continue"} {
		if err := os.Mkdir(there, 0o755); err != nil {
			t.Fatal(err)
		}
		code, _, msg := l.haul(append(append([]string{"get"}, strings.Fields(flags)...), "lab:d", there)...)
		if want := "copied lab:d/a -> " + filepath.Join(there, "d", "a") + "\n"; code != 0 || !strings.Contains(msg, want) {
			t.Errorf("%s: exit code %d, no %q in %s", flags, code, want, msg)
		}
	}
}

// --unchanged keeps times, and so a second run copies nothing.
func TestUnchangedTwice(t *testing.T) {
	l := startLab(t, map[string]string{"d/a": "a", "d/b": "b"})
	old := time.Now().Add(-24 * time.Hour)
	for _, name := range []string{"a", "b", "."} {
		if err := os.Chtimes(filepath.Join(l.dir, "d", name), old, old); err != nil {
			t.Fatal(err)
		}
	}
	to := t.TempDir()
	for _, want := range []string{"2 files", "0 files"} {
		for _, args := range [][]string{{"get", "-r", "--unchanged", "lab:d", to}, {"put", "-r", "--unchanged", filepath.Join(to, "d"), "lab:new/"}} {
			if code, _, msg := l.haul(args...); code != 0 || !strings.Contains(msg, want) {
				t.Errorf("%q: exit code %d, no %q in %s", args, code, want, msg)
			}
		}
	}
	// Users who may only add files may not set the times of directories.
	for _, dir := range []string{filepath.Join(to, "d"), filepath.Join(l.dir, "new", "d")} {
		if fi, err := os.Stat(dir); err != nil || fi.ModTime().Equal(old) {
			t.Errorf("%s has the time of its source, %v", dir, err)
		}
	}
}
