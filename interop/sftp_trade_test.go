//go:build unix

package interop

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// trade makes a tool move files from and to a server, in all cases or only some.
func trade(t *testing.T, m toolMaker, s sftpServer, only ...string) {
	t.Run(m.name+" and "+s.name, func(t *testing.T) {
		t.Parallel()
		served := realDir(t)
		l := s.start(t, served)
		tl := m.make(t, l)
		for _, c := range []struct {
			name string
			test func(t *testing.T, tl *tool, s sftpServer, served string)
		}{
			{"sizes", tradeSizes}, {"resume", tradeResume}, {"large", tradeLarge}, {"tree", tradeTree}, {"list", tradeList}, {"missing", tradeMissing},
		} {
			if len(only) > 0 && !slices.Contains(only, c.name) {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				if lacking(c.name, s.lacks) {
					t.Skipf("%s has no %s", s.name, c.name)
				}
				dir := filepath.Join(served, c.name)
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				c.test(t, tl, s, dir)
			})
		}
	})
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func tradeSizes(t *testing.T, tl *tool, _ sftpServer, served string) {
	local := t.TempDir()
	for _, size := range []int{0, 1, 32768, 261121, 3<<20 + 17} {
		data := content(size)
		write(t, fmt.Sprintf("%s/f%d", served, size), data)
		tl.get(t, fmt.Sprint("sizes/f", size), filepath.Join(local, "down"))
		wantFile(t, filepath.Join(local, "down"), data)
		// The first file is new, and the others replace an existing one.
		tl.put(t, "sizes/up", filepath.Join(local, "down"))
		wantFile(t, filepath.Join(served, "up"), data)
		if err := os.Remove(filepath.Join(local, "down")); err != nil {
			t.Fatal(err)
		}
	}
	small := write(t, filepath.Join(local, "small"), content(5))
	tl.put(t, "sizes/up", small)
	wantFile(t, filepath.Join(served, "up"), content(5))
}

func tradeResume(t *testing.T, tl *tool, _ sftpServer, served string) {
	if tl.reget == nil {
		t.Skipf("%s does not resume what was cut short", tl.name)
	}
	local := t.TempDir()
	const size = 1<<20 + 7
	data := content(size)
	write(t, filepath.Join(served, "whole"), data)
	up := write(t, filepath.Join(local, "up"), data)
	for _, have := range []int{1, size / 2, size - 1} {
		part := write(t, filepath.Join(local, fmt.Sprint("part", have)), data[:have])
		tl.reget(t, "resume/whole", part)
		wantFile(t, part, data)
		there := write(t, filepath.Join(served, fmt.Sprint("part", have)), data[:have])
		tl.reput(t, "resume/"+filepath.Base(there), up)
		wantFile(t, there, data)
	}
}

func tradeLarge(t *testing.T, tl *tool, _ sftpServer, served string) {
	if testing.Short() {
		t.Skip("short")
	}
	local := t.TempDir()
	there, up := filepath.Join(served, "there"), filepath.Join(local, "up")
	largeFile(t, there, largeMiB)
	tl.get(t, "large/there", up)
	sameFiles(t, there, up)
	tl.put(t, "large/back", up)
	sameFiles(t, there, filepath.Join(served, "back"))
}

// tree makes a tree with everything that may cause problems, and returns its content: the content
// of files by name, nil for directories. The targets of links are returned separately.
func tree(t *testing.T, dir string, tl *tool) (files map[string][]byte, links map[string]string) {
	t.Helper()
	files = map[string][]byte{"a": nil, "a/b": nil, "a/b/c": nil, "empty dir": nil, "many": nil}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files["a/b/c/deep"], files["a/empty"], files["a/script"] = content(70_000), content(0), content(400)
	for i := range 100 {
		files[fmt.Sprintf("many/%03d", i)] = content(i)
	}
	for i, name := range oddNames {
		if !slices.Contains(tl.noNames, name) {
			files["a/"+name] = content(1000 + i)
		}
	}
	for name, data := range files {
		file := filepath.Join(dir, name)
		if data == nil {
			continue
		}
		write(t, file, data)
		if err := os.Chtimes(file, then, then); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "a/script"), 0o750); err != nil {
		t.Fatal(err)
	}
	if tl.noLinks {
		return files, nil
	}
	// sshfs does not show a link that leads up, because it might lead outside.
	links = map[string]string{"link": "a/b/c/deep", "a/inner": "b/c"}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return files, links
}

// wantTree checks the content of a tree.
func wantTree(t *testing.T, dir string, tl *tool, files map[string][]byte, links map[string]string) {
	t.Helper()
	seen := 0
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		seen++
		if target, ok := links[rel]; ok {
			if got, err := os.Readlink(name); got != target || err != nil {
				t.Errorf("the link %s says %q, %v; want %q", rel, got, err, target)
			}
			return nil
		}
		data, ok := files[rel]
		if !ok {
			t.Errorf("there is %q, which was not in the tree", rel)
			return nil
		}
		if d.IsDir() != (data == nil) {
			t.Errorf("%q is a directory: %v", rel, d.IsDir())
		}
		if data == nil {
			return nil
		}
		wantFile(t, name, data)
		if fi, err := d.Info(); tl.times && (err != nil || !fi.ModTime().Equal(then)) {
			t.Errorf("%q is of %v, %v; want %v", rel, fi.ModTime(), err, then)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if want := len(files) + len(links); seen != want {
		t.Errorf("the tree has %d names, want %d", seen, want)
		for name := range files {
			if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
				t.Errorf("missing is %q", name)
			}
		}
	}
}

func tradeTree(t *testing.T, tl *tool, s sftpServer, served string) {
	if tl.putTree == nil {
		t.Skipf("%s moves no trees", tl.name)
	}
	local, back := t.TempDir(), t.TempDir()
	there := filepath.Join(served, "there")
	if err := os.Mkdir(there, 0o755); err != nil {
		t.Fatal(err)
	}
	if lacking("links", s.lacks) || lacking("readlink", s.lacks) {
		with := *tl
		with.noLinks, tl = true, &with
	}
	files, links := tree(t, local, tl)
	tl.putTree(t, "tree/there", local)
	wantTree(t, there, tl, files, links)
	tl.getTree(t, "tree/there", back)
	wantTree(t, back, tl, files, links)
}

func tradeList(t *testing.T, tl *tool, _ sftpServer, served string) {
	if tl.list == nil {
		t.Skipf("%s lists nothing", tl.name)
	}
	var want []string
	for i := range 2000 { // with such long names that the list takes many packets
		want = append(want, fmt.Sprintf("an-entry-with-a-long-name-%0140d", i))
		write(t, filepath.Join(served, want[i]), nil)
	}
	got := tl.list(t, "list")
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("listed are %d names, want %d", len(got), len(want))
		if len(got) < 10 {
			t.Logf("%q", got)
		}
	}
}

func tradeMissing(t *testing.T, tl *tool, _ sftpServer, _ string) {
	local := filepath.Join(t.TempDir(), "local")
	if err := tl.fails(t, "missing/file", local); err == nil {
		t.Error("to get a file that is missing succeeded")
	}
	if fi, err := os.Stat(local); err == nil && fi.Size() > 0 {
		t.Errorf("left is a file of %d bytes", fi.Size())
	}
}
