package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/haul-project/haul/store"
)

func TestLs(t *testing.T) {
	l := startLab(t, map[string]string{"b": "bb", "a": "a", ".hidden": "", "sub/c": "ccc", "sub/deep/d": "", "[x]": "", "x": ""})
	for _, c := range []struct{ args, want string }{
		{"lab:", "[x] a b sub x"},
		{"lab:.", "[x] a b sub x"},
		{"-a lab:", ".hidden [x] a b sub x"},
		{l.url("/"), "[x] a b sub x"},
		{l.url(""), "[x] a b sub x"},
		{l.url("/~/sub"), "c deep"},
		{"lab:/sub/", "c deep"},
		{"lab:b", "b"},
		{"lab:b lab:a", "a b"},
		{"lab:sub lab:a", "a  sub: c deep"},
		{"-R lab:", ".: [x] a b sub x  sub: c deep  sub/deep: d"},
		{"-R lab:/sub", "/sub: c deep  /sub/deep: d"},
		{"lab:[ab]", "a b"},
		{"lab:[x]", "[x]"}, // what exists is no pattern
		{`lab:\[x\]`, "[x]"},
		{"lab:?", "a b x"},
		{"lab:s*/c", "sub/c"},
		{"lab:s*/*", "sub/c  sub/deep: d"},
		{"lab:/s*/c", "/sub/c"},
		{"lab:.h*", ".hidden"},
		{"twin:a lab:b", "a b"}, // other servers, as far as haul knows
	} {
		args := append([]string{"ls"}, strings.Fields(c.args)...)
		got := strings.ReplaceAll(l.must(args...), "\n", " ")
		if got = strings.TrimSpace(got); got != c.want {
			t.Errorf("haul %q: %q, want %q", args, got, c.want)
		}
	}
	for args, says := range map[string]string{"lab:none": "none", "lab:sub/none": "sub/none", "lab:z*": "no name matches", "lab:*/none": "no name matches"} {
		if code, _, msg := l.haul("ls", args); code != exitNotFound || !strings.Contains(msg, says) || strings.Contains(msg, "does not exist") {
			t.Errorf("haul ls %s: exit code %d, %s", args, code, msg)
		}
	}
	// Entries that exist are listed all the same.
	if code, out, _ := l.haul("ls", "lab:none", "lab:a"); code != exitNotFound || out != "a\n" {
		t.Errorf("one of two is missing: exit code %d, %q", code, out)
	}
	if code, _, msg := l.haul("ls", "lab:[a"); code != exitNotFound || !strings.Contains(msg, "pattern") {
		t.Errorf("a bad pattern: exit code %d, %s", code, msg)
	}
}

func TestLsLong(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permissions, and no owners")
	}
	l := startLab(t, map[string]string{"file": strings.Repeat("x", 1536), "dir/f": ""})
	old := time.Date(2001, 2, 3, 4, 5, 6, 0, time.Local)
	for name, mode := range map[string]fs.FileMode{"file": 0o640, "dir": 0o1777 &^ 0o1000} {
		if err := os.Chmod(filepath.Join(l.dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(filepath.Join(l.dir, "file"), old, old); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", filepath.Join(l.dir, "link")); err != nil {
		t.Fatal(err)
	}
	out := l.must("ls", "-l", "lab:")
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(lines) != 3 {
		t.Fatalf("ls -l prints\n%s", out)
	}
	me := fmt.Sprint(os.Getuid())
	wantFields := [][]string{
		{"drwxrwxrwx", "", me, fmt.Sprint(os.Getgid()), "", time.Now().Format("Jan"), "", "", "dir"},
		{"-rw-r-----", "", me, fmt.Sprint(os.Getgid()), "1536", "Feb", "3", "2001", "file"},
		{"lrwxrwxrwx", "", me, fmt.Sprint(os.Getgid()), "4", "", "", "", "link", "->", "file"},
	}
	for i, line := range lines {
		for j, f := range strings.Fields(line) {
			if j < len(wantFields[i]) && wantFields[i][j] != "" && f != wantFields[i][j] {
				t.Errorf("line %d, field %d is %q, want %q: %s", i, j, f, wantFields[i][j], line)
			}
		}
		if strings.Index(line, " link") > 0 && !strings.HasSuffix(line, "link -> file") {
			t.Error("a link without where it leads:", line)
		}
	}
	if out := l.must("ls", "-lh", "lab:file"); !strings.Contains(out, " 1.5K ") {
		t.Errorf("ls -lh: %s", out)
	}
	// A link to a directory is shown itself with -l, and followed without.
	if err := os.Symlink("dir", filepath.Join(l.dir, "way")); err != nil {
		t.Fatal(err)
	}
	if out := l.must("ls", "lab:way"); out != "f\n" {
		t.Errorf("ls of a link to a directory: %q", out)
	}
	if out := l.must("ls", "-l", "lab:way"); !strings.Contains(out, "way -> dir") {
		t.Errorf("ls -l of a link to a directory: %q", out)
	}
}

func TestLsJSON(t *testing.T) {
	l := startLab(t, map[string]string{"sub/f <&>": "12345"})
	out := l.must("ls", "-R", "--json", "lab:")
	var list []map[string]any
	for line := range strings.Lines(out) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		list = append(list, m)
	}
	if len(list) != 2 || list[0]["path"] != "sub" || list[0]["type"] != "dir" ||
		list[1]["path"] != "sub/f <&>" || list[1]["name"] != "f <&>" || list[1]["size"] != 5.0 || list[1]["type"] != "file" {
		t.Errorf("%v", list)
	}
	if _, err := time.Parse(time.RFC3339, list[1]["modified"].(string)); err != nil {
		t.Error(err)
	}
}

// strangeNames are names that would take hold of a terminal.
var strangeNames = []string{"a\x1b[2Jb", "bell\a", "two\nlines", "tab\there", "turn\u202eed", "c1\u009b31m", "bad\xff\xfe", `back\slash`}

// isUntamed reports whether there is something in a text that a terminal would
// do more with than show it.
func isUntamed(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\r' })
}

func TestLsStrangeNames(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("not every system has such names")
	}
	files := map[string]string{}
	for _, n := range strangeNames {
		files[n] = ""
	}
	l := startLab(t, files)
	// In a pipe names are what they are,
	sorted := slices.Sorted(slices.Values(strangeNames))
	if got := l.must("ls", "lab:"); got != strings.Join(sorted, "\n")+"\n" {
		t.Errorf("in a pipe: %q", got)
	}
	// and in JSON nothing of them is lost.
	out := l.must("ls", "--json", "lab:")
	if strings.ContainsAny(out, "\x1b\a\t") {
		t.Errorf("JSON with control characters: %q", out)
	}
	i := 0
	for line := range strings.Lines(out) {
		var d struct {
			Name      string
			NameBytes []byte `json:"name_bytes"`
		}
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatal(err)
		}
		if d.NameBytes != nil {
			d.Name = string(d.NameBytes)
		}
		if d.Name != sorted[i] {
			t.Errorf("JSON has %q for %q", d.Name, sorted[i])
		}
		i++
	}
	// Messages are for terminals. (The name is no pattern, for it exists.)
	for _, n := range strangeNames {
		code, _, msg := l.haul("rm", "lab:"+n+"/x")
		var printed strings.Builder
		printError(&printed, fmt.Errorf("%s", msg))
		if code == 0 || isUntamed(printed.String()) {
			t.Errorf("rm of %q: exit code %d, says %q", n, code, printed.String())
		}
	}
}

func TestLsManyEntries(t *testing.T) {
	const many = 100_000
	mem := store.Mem(1 << 30)
	if err := mem.Mkdir(t.Context(), "big", 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range many {
		u, err := mem.Create(t.Context(), fmt.Sprintf("big/%06d", many-1-i), store.Create{})
		if err != nil {
			t.Fatal(err)
		}
		if err := u.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	l := startLabWith(t, labOptions{tree: func(store.Tree) store.Tree { return mem }}, nil)
	i := 0
	for line := range strings.Lines(l.must("ls", "lab:big")) {
		if line != fmt.Sprintf("%06d\n", i) {
			t.Fatalf("line %d is %q", i, line)
		}
		i++
	}
	if i != many {
		t.Errorf("%d lines", i)
	}
}

func TestStat(t *testing.T) {
	l := startLab(t, map[string]string{"f": "12345"})
	if err := os.Symlink("f", filepath.Join(l.dir, "link")); err != nil {
		t.Skip(err)
	}
	out := l.must("stat", "lab:f")
	for _, want := range []string{"File  f\n", "Type  file\n", "Size  5 bytes", "Modified  "} {
		if !strings.Contains(out, want) {
			t.Errorf("stat lacks %q:\n%s", want, out)
		}
	}
	if out := l.must("stat", "lab:link"); !strings.Contains(out, "link -> f") || !strings.Contains(out, "symlink") {
		t.Errorf("stat of a link:\n%s", out)
	}
	if out := l.must("stat", "lab:link"); strings.Contains(out, " \n") {
		t.Errorf("blanks at the end of a line:\n%s", out)
	}
	if out := l.must("stat", "-L", "lab:link"); !strings.Contains(out, "Type  file\n") {
		t.Errorf("stat -L of a link:\n%s", out)
	}
	var d struct {
		Type string
		Size *int64
	}
	if err := json.Unmarshal([]byte(l.must("stat", "--json", "lab:f")), &d); err != nil || d.Size == nil || *d.Size != 5 || d.Type != "file" {
		t.Errorf("%+v, %v", d, err)
	}
	if code, _, msg := l.haul("stat", "lab:none"); code != exitNotFound || !strings.Contains(msg, "none") {
		t.Errorf("stat of nothing: exit code %d, %s", code, msg)
	}
}

func TestRm(t *testing.T) {
	l := startLab(t, map[string]string{"a": "", "b": "", "x1": "", "x2": "", "dir/f": "", "dir/sub/g": "", "keep": "", "kept/f": ""})
	gone := func(name string) {
		t.Helper()
		if _, err := os.Lstat(filepath.Join(l.dir, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	l.must("rm", "lab:a", l.url("/b"))
	gone("a")
	gone("b")
	l.must("rm", "lab:x?")
	gone("x1")
	gone("x2")
	if code, _, msg := l.haul("rm", "lab:dir"); code != exitRefused || !strings.Contains(msg, "-r") {
		t.Errorf("rm of a directory: exit code %d, %s", code, msg)
	}
	l.must("rm", "-r", "lab:dir/")
	gone("dir")
	if code, _, _ := l.haul("rm", "lab:none", "lab:keep"); code != exitNotFound {
		t.Errorf("rm of nothing: exit code %d", code)
	}
	gone("keep")
	l.must("rm", "-f", "lab:none", "lab:non*", "lab:no/such")
	// The target of a link stays.
	if err := os.Symlink("kept", filepath.Join(l.dir, "way")); err == nil {
		for _, flag := range []string{"-r", "-f"} {
			if code, _, msg := l.haul("rm", flag, "lab:way/", "lab:kept/f/"); code != exitRefused || strings.Count(msg, "is not a directory") != 2 {
				t.Errorf("rm %s of a link with a slash: exit code %d, %s", flag, code, msg)
			}
		}
		l.must("rm", "-r", "lab:way")
		gone("way")
	}
	wantFile(t, filepath.Join(l.dir, "kept/f"), "")
	for _, name := range []string{"", ".", "./", "..", "/", "/.", "/..", "a/..", "a/.", "a/../", "~", "~/", "~other", "../../", "kept/.."} {
		if code, _, msg := l.haul("rm", "-rf", "lab:"+name); code != exitUsage || !strings.Contains(msg, "refused") {
			t.Errorf("rm -rf lab:%s: exit code %d, %s", name, code, msg)
		}
	}
	for _, url := range []string{"", "/", "/~", "/~/", "/%2e", "/%2E%2e"} {
		if code, _, msg := l.haul("rm", "-rf", l.url(url)); code != exitUsage {
			t.Errorf("rm -rf %s: exit code %d, %s", l.url(url), code, msg)
		}
	}
	wantFile(t, filepath.Join(l.dir, "kept/f"), "")
}

func TestMv(t *testing.T) {
	l := startLab(t, map[string]string{"a": "a", "b": "b", "c": "c", "dir/f": ""})
	l.must("mv", "lab:a", "lab:b")
	wantFile(t, filepath.Join(l.dir, "b"), "a")
	if code, _, msg := l.haul("mv", "-n", "lab:b", "lab:c"); code != exitRefused || !strings.Contains(msg, "exist") {
		t.Errorf("mv -n: exit code %d, %s", code, msg)
	}
	l.must("mv", "lab:b", "lab:dir")
	wantFile(t, filepath.Join(l.dir, "dir/b"), "a")
	l.must("mv", "lab:dir/", "twin:/folder") // the same server by another name
	wantFile(t, filepath.Join(l.dir, "folder/b"), "a")
	l.must("mv", "lab:c", l.url("/folder/"))
	wantFile(t, filepath.Join(l.dir, "folder/c"), "c")
	other := startLab(t, nil)
	for _, c := range []struct {
		from, to string
		code     int
		says     string
	}{
		{"lab:none", "lab:x", exitNotFound, "none"},
		{"lab:folder/b", "lab:no/such/place", exitNotFound, "no/such"},
		{"lab:folder/b", "lab:nodir/", exitNotFound, "nodir"},
		{"lab:folder/b", "lab:folder/c/", exitRefused, "not a directory"},
		{"lab:folder/b", other.url("/b"), exitUsage, "different servers"},
		{"lab:", "lab:x", exitUsage, "refused"},
		{"lab:folder/b", "b", exitUsage, "local"},
		{"tftp://h/a", "lab:b", exitUsage, "TFTP"},
	} {
		if code, _, msg := l.haul("mv", c.from, c.to); code != c.code || !strings.Contains(msg, c.says) {
			t.Errorf("mv %s %s: exit code %d, want %d, and %q: %s", c.from, c.to, code, c.code, c.says, msg)
		}
	}
}

func TestMkdirAndDf(t *testing.T) {
	l := startLab(t, map[string]string{"f": ""})
	l.must("mkdir", "lab:a", l.url("/b"))
	l.must("mkdir", "-p", "lab:c/d/e", "lab:a")
	for _, name := range []string{"a", "b", "c/d/e"} {
		if info, err := os.Stat(filepath.Join(l.dir, name)); err != nil || !info.IsDir() {
			t.Error(name, err)
		}
	}
	for name, want := range map[string]int{"a": exitRefused, "no/such": exitNotFound, "f": exitRefused} {
		if code, _, msg := l.haul("mkdir", "lab:"+name); code != want {
			t.Errorf("mkdir %s: exit code %d, want %d: %s", name, code, want, msg)
		}
	}
	if runtime.GOOS != "linux" {
		t.Skip("not every system reports how much room there is")
	}
	out := l.must("df", "lab:")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); len(lines) != 2 || !strings.HasPrefix(strings.TrimSpace(lines[0]), "KiB") || !strings.HasSuffix(lines[1], "% lab:") {
		t.Errorf("df prints\n%s", out)
	}
	if out := l.must("df", "-h", "lab:"); !strings.Contains(out, "Size") {
		t.Errorf("df -h prints\n%s", out)
	}
	var s struct{ Total, Used, Free int64 }
	if err := json.Unmarshal([]byte(l.must("df", "--json", "lab:")), &s); err != nil || s.Total <= 0 || s.Used+s.Free != s.Total {
		t.Errorf("%+v, %v", s, err)
	}
}
