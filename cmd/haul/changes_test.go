package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
)

// modesOf returns the permissions of files below a directory.
func modesOf(t *testing.T, dir string, names ...string) string {
	t.Helper()
	var list []string
	for _, name := range names {
		fi, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%03o", console.UnixBits(fi.Mode())))
	}
	return strings.Join(list, " ")
}

// chmod changes what is named, follows a link that is named, and with -R follows none.
func TestChmod(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permissions")
	}
	l := startLab(t, map[string]string{"a": "", "b": "", "d/f": "", "d/sub/g": "", "out/h": ""})
	chmod := func(mode fs.FileMode, names ...string) {
		t.Helper()
		for _, name := range names {
			if err := os.Chmod(filepath.Join(l.dir, name), mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, to := range map[string]string{"link": "a", "d/out": "../out", "d/file": "../b", "way": "d"} {
		if err := os.Symlink(to, filepath.Join(l.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	files, dirs := []string{"a", "b", "d/f", "d/sub/g", "out/h"}, []string{"d", "d/sub", "out"}
	for _, c := range []struct{ args, files, dirs, out string }{
		{"600 lab:a", "600 644 644 644 644", "755 755 755", ""},
		{"-v u+x,go= lab:link lab:[ab]", "700 700 644 644 644", "755 755 755", "link\nb\n"},
		{"-R go-rwX lab:d", "644 644 600 600 644", "700 700 755", ""},
		{"-Rv a=rX lab:d", "644 644 444 444 644", "555 555 755", "d\nd/f\nd/sub\nd/sub/g\n"},
		{"-Rv a-x lab:d", "644 644 644 644 644", "644 644 755", "d/sub\nd\n"},
		{"-R 700 lab:way", "644 644 644 644 644", "700 755 755", ""},
		{"-R 700 lab:way/", "644 644 700 700 644", "700 700 755", ""},
		{"-Rv 755 lab:d lab:d", "644 644 755 755 644", "755 755 755", "d/f\nd/sub/g\n"},
		{"-R 0 lab:d/sub", "644 644 644 000 644", "755 000 755", ""},
	} {
		chmod(0o644, files...)
		chmod(0o755, dirs...)
		out := l.must(append([]string{"chmod"}, strings.Fields(c.args)...)...)
		chmodded := modesOf(t, l.dir, dirs...)
		chmod(0o755, dirs...) // to look into them
		if got := modesOf(t, l.dir, files...); got != c.files || chmodded != c.dirs || out != c.out {
			t.Errorf("chmod %s: files %s, directories %s, printed %q; want %s, %s, %q", c.args, got, chmodded, out, c.files, c.dirs, c.out)
		}
	}
	for args, want := range map[string]int{
		"888 lab:a": exitUsage, "u+x": exitUsage, "600 lab:none": exitNotFound, "600 a": exitUsage, "600 https://host/a": exitUsage, "600 s3://bucket/a": exitUsage, "-x lab:a": exitUsage,
		"600 lab:none lab:b": exitNotFound,
	} {
		if code, _, msg := l.haul(append([]string{"chmod"}, strings.Fields(args)...)...); code != want {
			t.Errorf("chmod %s: exit code %d, %s", args, code, msg)
		}
	}
	if got := modesOf(t, l.dir, "b"); got != "600" {
		t.Errorf("behind a missing file: %s", got)
	}
}

// ln makes links as ln(1) does, and replaces with -f alone.
func TestLn(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no symbolic links")
	}
	l := startLab(t, map[string]string{"a": "A", "b": "B", "d/f": ""})
	want := func(name, text, content string) {
		t.Helper()
		got, _ := os.Readlink(filepath.Join(l.dir, name))
		b, err := os.ReadFile(filepath.Join(l.dir, name))
		if err != nil && content != "" || got != text || string(b) != content {
			t.Errorf("%s is a link to %q with %q, want %q with %q", name, got, b, text, content)
		}
	}
	l.must("ln", "-s", "a", "lab:s")
	want("s", "a", "A")
	l.must("ln", "-s", "../a", "no where\n", "lab:d")
	want("d/a", "../a", "A")
	want("d/no where\n", "no where\n", "")
	l.must("ln", "lab:a", "lab:h")
	want("h", "", "A")
	l.must("ln", "-sf", "b", "lab:s")
	want("s", "b", "B")
	l.must("ln", "-f", "lab:b", "lab:h")
	want("h", "", "B")
	l.must("ln", "-f", "lab:b", "lab:h") // which it is already
	l.must("ln", "-s", "d", "lab:cur")
	l.must("ln", "-sfn", "elsewhere", "lab:cur")
	want("cur", "elsewhere", "")
	l.must("ln", "-sf", "d", "lab:cur")
	l.must("ln", "-sf", "x", "lab:cur")
	want("d/x", "x", "")
	for args, want := range map[string]int{
		"-s a lab:s": exitRefused, "lab:a lab:h": exitRefused, "-f lab:a lab:a": exitRefused, "-s a b lab:none": exitRefused, "-s a lab:none/": exitRefused, "lab:none lab:n": exitNotFound,
		"lab:d lab:n": exitRefused, "-s lab:a lab:n": exitUsage, "a lab:n": exitUsage, "-s x y": exitUsage, "-s a https://host/b": exitUsage,
		"-s a s3://bucket/b": exitUsage, "other:a lab:n": exitUsage, "-sf .. lab:d": exitRefused,
	} {
		if code, _, msg := l.haul(append([]string{"ln"}, strings.Fields(args)...)...); code != want {
			t.Errorf("ln %s: exit code %d, %s", args, code, msg)
		}
	}
	if code, _, msg := l.haul("ln", "-s", "", "lab:n"); code != exitUsage {
		t.Errorf("a link without text: exit code %d, %s", code, msg)
	}
	entries, err := filepath.Glob(filepath.Join(l.dir, ".haul-*"))
	if _, e := os.Lstat(filepath.Join(l.dir, "n")); len(entries) > 0 || err != nil || !errors.Is(e, fs.ErrNotExist) {
		t.Errorf("left over: %q, %v; n: %v", entries, err, e)
	}
}

// tree prints what tree(1) does.
func TestTree(t *testing.T) {
	files := map[string]string{"a": strings.Repeat("x", 1536), "d/.h": "", "d/e/f": "12", "d/g": "", "z/y": ""}
	l, w := startLab(t, files), startWeb(t, files)
	for args, want := range map[string]string{
		"":          "├── a\n├── d\n│   ├── e\n│   │   └── f\n│   └── g\n└── z\n    └── y\n\n3 directories, 4 files\n",
		"-L 1":      "├── a\n├── d\n└── z\n\n2 directories, 1 file\n",
		"-d":        "├── d\n│   └── e\n└── z\n\n3 directories\n",
		"-sL 1":     "├── [       1536]  a\n",
		"-h -L 1":   "├── [1.5K]  a\n",
		"-d -L 1 d": "└── e\n\n1 directory\n",
		"-a d":      "├── .h\n├── e\n│   └── f\n└── g\n\n1 directory, 3 files\n",
	} {
		words := append([]string{"tree"}, strings.Fields(args)...)
		dir := ""
		if last := len(words) - 1; words[last] == "d" {
			words, dir = words[:last], "d"
		}
		root := map[bool]string{true: ".", false: dir}[dir == ""]
		for where, got := range map[string]string{"SFTP": l.must(append(words, "lab:"+dir)...), "HTTP": w.must(append(words, w.URL+"/"+dir)...)} {
			if where == "HTTP" && strings.Contains(args, "-a") {
				continue // the server lists no such names
			}
			if strings.HasSuffix(want, "files\n") || strings.HasSuffix(want, "directory\n") || strings.HasSuffix(want, "directories\n") || strings.HasSuffix(want, "1 file\n") {
				if got != root+"\n"+want {
					t.Errorf("tree %s over %s prints\n%swant\n%s", args, where, got, want)
				}
			} else if !strings.HasPrefix(got, root+"\n"+want) {
				t.Errorf("tree %s over %s prints\n%swant\n%s", args, where, got, want)
			}
		}
	}
	if runtime.GOOS != "windows" {
		if err := os.Symlink("../a", filepath.Join(l.dir, "z", "l\n")); err != nil {
			t.Fatal(err)
		}
		if got := l.must("tree", "lab:z"); got != "z\n├── l\n -> ../a\n└── y\n\n0 directories, 2 files\n" {
			t.Errorf("a link: %q", got)
		}
	}
	if code, out, msg := l.haul("tree", "lab:a", "lab:none", "lab:z"); code != exitRefused || !strings.HasPrefix(out, "z\n") || !strings.Contains(msg, "no directory") || !strings.Contains(msg, "none") {
		t.Errorf("a file and a missing name: exit code %d, %q, %s", code, out, msg)
	}
	for _, args := range []string{"-L 0 lab:", "-L -1 lab:", "-L x lab:", "local", ""} {
		if code, _, _ := l.haul(append([]string{"tree"}, strings.Fields(args)...)...); code != exitUsage {
			t.Errorf("tree %s: exit code %d", args, code)
		}
	}
}

// cat writes files one after the other, or a part of each.
func TestCat(t *testing.T) {
	files := map[string]string{"a": "12345", "b": strings.Repeat("b", 300_000), "empty": "", "d/c": "c"}
	l, w := startLab(t, files), startWeb(t, files)
	for args, want := range map[string]string{
		"a d/c": "12345c", "a empty a": "1234512345", "[ab]": "12345" + files["b"], "--offset 1 a": "2345", "--offset -2 a": "45", "--offset -9 a": "12345", "--offset 9 a": "",
		"--count 2 a a": "1212", "--offset 1 --count 3 a": "234", "--count 0 a": "", "--offset 299999 b": "b", "--offset 9223372036854775807 a": "",
	} {
		args := append([]string{"cat"}, strings.Fields(args)...)
		at := func(base string) []string {
			list := append([]string(nil), args...)
			for i, word := range list {
				if i > 0 && (files[word] != "" || word == "empty" || word == "[ab]") {
					list[i] = base + word
				}
			}
			return list
		}
		if got := l.must(at("lab:")...); got != want {
			t.Errorf("%q over SFTP: %.80q, want %.80q", args, got, want)
		}
		if got := w.must(at(w.URL + "/")...); got != want {
			t.Errorf("%q over HTTP: %.80q, want %.80q", args, got, want)
		}
	}
	if code, out, msg := l.haul("cat", "lab:none", "lab:d", "lab:a"); code != exitRefused || out != "12345" || !strings.Contains(msg, "none") {
		t.Errorf("behind what cannot be read: exit code %d, %q, %s", code, out, msg)
	}
	for _, args := range []string{"--count -1 lab:a", "--count -2 lab:a", "--count x lab:a", "local", "tftp://host/a", "lab:a https://host/b"} {
		if code, _, _ := l.haul(append([]string{"cat"}, strings.Fields(args)...)...); code != exitUsage {
			t.Errorf("cat %s: exit code %d", args, code)
		}
	}
}
