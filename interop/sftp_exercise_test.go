//go:build unix

package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// These are sizes near the limits of requests: every server accepts 32 KiB, and OpenSSH's and
// ours 255 KiB.
var sftpSizes = []int{0, 1, 32767, 32768, 32769, 261119, 261120, 261121, 3<<20 + 17}

// These are names that programs may misinterpret when they parse them.
var oddNames = []string{
	"with space", " leading", "trailing ", "-dash", "quo\"te", "apo'strophe", "back\\slash", "star*", "que?ry", "[brackets]",
	"semi;colon", "dollar$HOME", "per%20cent", "hash#tag", "co:lon", "new\nline", "tab\there", "bell\a", "日本語", "e\u0301 é",
	".hidden", "...", "~tilde", "&amp;", "`ls`", strings.Repeat("n", 255),
}

// invalidNames are bytes that are not UTF-8.
var invalidNames = []string{"latin\xe9", "\xff\xfe", "cut\xe6\x97"}

// then is a time that no file has by chance, in whole seconds as in SFTP.
var then = time.Unix(1_234_567_890, 0)

// A meeting has one driver and one server, with a directory of the server and one of the client.
type meeting struct {
	d      driver
	s      sftpServer
	login  login
	served string // local path of the directory that the server serves
	local  string
}

// exercise makes a driver perform all operations of SFTP with a server, or only some cases.
func exercise(t *testing.T, d driver, s sftpServer, only ...string) {
	t.Run(d.name+" and "+s.name, func(t *testing.T) {
		t.Parallel()
		d.find(t) // fail before starting the server
		served := realDir(t)
		x := &meeting{d: d, s: s, served: served, login: s.start(t, served)}
		for _, c := range []struct {
			name string
			test func(t *testing.T, x *meeting)
		}{
			{"sizes", testSizes}, {"resume", testResume}, {"large", testLarge}, {"names", testNames},
			{"rename", testRename}, {"links", testLinks}, {"attributes", testAttributes}, {"directories", testDirectories},
			{"space", testSpace}, {"pieces", testPieces}, {"publish", testPublish}, {"copy", testCopy},
		} {
			if len(only) > 0 && !slices.Contains(only, c.name) {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				if lacking(c.name, d.lacks, s.lacks) {
					t.Skipf("%s and %s: one of them has no %s", d.name, s.name, c.name)
				}
				// The cases share only a server: each has its own directory.
				y := *x
				y.local = t.TempDir()
				test := c.test
				if err := os.Mkdir(filepath.Join(served, c.name), 0o755); err != nil {
					t.Fatal(err)
				}
				y.served = filepath.Join(served, c.name)
				test(t, &y)
			})
		}
	})
}

// realDir returns a temporary directory by its real path: a server that resolves links shows no
// other.
func realDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// remote returns a name in the case's directory, as the server knows it.
func (x *meeting) remote(name string) string { return filepath.Base(x.served) + "/" + name }

// lacks reports whether the driver or the server lacks a feature.
func (x *meeting) lacks(feature string) bool { return lacking(feature, x.d.lacks, x.s.lacks) }

// must performs operations that must not fail.
func (x *meeting) must(t *testing.T, ops ...[]string) []answer {
	t.Helper()
	answers := x.d.do(t, x.login, ops...)
	failed := 0
	for i, a := range answers {
		if a.Error != "" {
			t.Errorf("%q: %s", ops[i], a.Error)
			failed++
		}
		if failed > 20 {
			break
		}
	}
	if failed > 0 {
		t.FailNow()
	}
	return answers
}

func (x *meeting) write(t *testing.T, dir, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

func testNames(t *testing.T, x *meeting) {
	names := slices.Clone(oddNames)
	if !x.lacks("invalid") {
		names = append(names, invalidNames...)
	}
	ops := [][]string{{"list", x.remote("")}}
	for i, name := range names {
		x.write(t, x.served, name, content(100+i))
		local := fmt.Sprintf("%s/%d", x.local, i)
		ops = append(ops, []string{"stat", x.remote(name)}, []string{"get", x.remote(name), local},
			[]string{"remove", x.remote(name)}, []string{"put", local, x.remote(name)})
	}
	ops = append(ops, []string{"list", x.remote("")})
	answers := x.must(t, ops...)
	slices.Sort(names)
	wantNames(t, answers[0], names)
	wantNames(t, answers[len(answers)-1], names)
	var there []string
	for _, e := range readDir(t, x.served) {
		there = append(there, e.Name())
	}
	if !slices.Equal(there, names) {
		t.Errorf("the server's directory holds %q, want %q", there, names)
	}
}

func readDir(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// wantNames checks the names in a listing, sorted.
func wantNames(t *testing.T, a answer, want []string) {
	t.Helper()
	var got []string
	if err := json.Unmarshal(a.Value, &got); err != nil {
		t.Fatalf("a listing is %s: %v", a.Value, err)
	}
	for i, name := range got {
		got[i] = raw(name)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("listed are %d names, want %d:\n%.2000q\nwant\n%.2000q", len(got), len(want), got, want)
	}
}

func testRename(t *testing.T, x *meeting) {
	for i, name := range []string{"a", "b", "c", "d"} {
		x.write(t, x.served, name, content(1000+i))
	}
	if err := os.Mkdir(filepath.Join(x.served, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := x.remote
	answers := x.d.do(t, x.login,
		[]string{"rename", r("a"), r("new")},
		[]string{"rename", r("b"), r("c")}, // replaces an existing file
		[]string{"move", r("d"), r("dir/d")},
		[]string{"move", r("dir/d"), r("c")}, // which exists
		[]string{"rename", r("none"), r("x")},
		[]string{"rename", r("dir"), r("moved")},
	)
	c := 1001
	for i, a := range answers {
		refused := i == 3 && !x.lacks("refusal") || i == 1 && x.lacks("replace") || i == 4
		if refused != (a.Error != "") {
			t.Errorf("rename %d: %q", i, a.Error)
		}
	}
	if kind := answers[4].Kind; kind != "not exist" {
		t.Errorf("to rename what is missing is %q: %s", kind, answers[4].Error)
	}
	wantFile(t, filepath.Join(x.served, "new"), content(1000))
	switch {
	case x.lacks("refusal"):
		c = 1003 // the file d was moved, too
	case x.lacks("replace"):
		c = 1002
		wantFile(t, filepath.Join(x.served, "b"), content(1001))
	}
	wantFile(t, filepath.Join(x.served, "c"), content(c))
	if !x.lacks("refusal") {
		wantFile(t, filepath.Join(x.served, "moved/d"), content(1003))
	}
	want := 3
	if x.lacks("replace") {
		want++
	}
	if left := readDir(t, x.served); len(left) != want {
		t.Errorf("left is %v", left)
	}
}

func testLinks(t *testing.T, x *meeting) {
	r := x.remote
	x.write(t, x.served, "file", content(5000))
	ops := [][]string{
		{"symlink", "file", r("soft")}, {"symlink", "nowhere/at all", r("dangling")}, {"symlink", ".", r("self")},
		{"lstat", r("soft")}, {"stat", r("soft")}, {"lstat", r("dangling")}, {"stat", r("self/self/file")},
		{"get", r("soft"), filepath.Join(x.local, "soft")},
	}
	if !x.lacks("readlink") {
		ops = append(ops, []string{"readlink", r("soft")}, []string{"readlink", r("dangling")})
	}
	if !x.lacks("link") {
		ops = append(ops, []string{"link", r("file"), r("hard")})
	}
	answers := x.must(t, ops...)
	for name, want := range map[string]string{"soft": "file", "dangling": "nowhere/at all", "self": "."} {
		if got, err := os.Readlink(filepath.Join(x.served, name)); got != want || err != nil {
			t.Errorf("the link %s says %q, %v; want %q", name, got, err, want)
		}
	}
	for i, want := range map[int]string{8: "file", 9: "nowhere/at all"} {
		var got string
		if x.lacks("readlink") {
			break
		}
		if err := json.Unmarshal(answers[i].Value, &got); err != nil || raw(got) != want {
			t.Errorf("readlink: %q, %v; want %q", got, err, want)
		}
	}
	for i, want := range map[int]uint32{3: syscall.S_IFLNK, 4: syscall.S_IFREG, 5: syscall.S_IFLNK, 6: syscall.S_IFREG} {
		if got := attributesOf(t, answers[i]); got.Mode&syscall.S_IFMT != want || want == syscall.S_IFREG && got.Size != 5000 {
			t.Errorf("%q is %+v, want type %o", ops[i], got, want)
		}
	}
	wantFile(t, filepath.Join(x.local, "soft"), content(5000))
	if !x.lacks("link") {
		a, err := os.Stat(filepath.Join(x.served, "hard"))
		b, err2 := os.Stat(filepath.Join(x.served, "file"))
		if err != nil || err2 != nil || !os.SameFile(a, b) {
			t.Errorf("hard and file are not one file: %v, %v", err, err2)
		}
	}
	bad := x.d.do(t, x.login, []string{"stat", r("dangling")}, []string{"readlink", r("file")}, []string{"remove", r("self")},
		[]string{"remove", r("dangling")}, []string{"symlink", "x", r("soft")})
	if bad[0].Kind != "not exist" || bad[1].Error == "" || bad[4].Error == "" {
		t.Errorf("a dangling link is %q, readlink of a file %q, a link over a name %q", bad[0].Error, bad[1].Error, bad[4].Error)
	}
	if bad[2].Error != "" || bad[3].Error != "" {
		t.Errorf("removing links: %q, %q", bad[2].Error, bad[3].Error)
	}
	if n := len(readDir(t, x.served)); n != 2 && n != 3 {
		t.Errorf("left is %v", readDir(t, x.served))
	}
}

// attributes are the result of STAT.
type attributes struct {
	Size  int64
	Mode  uint32 // in the format of st_mode
	Mtime int64
}

func attributesOf(t *testing.T, a answer) (out attributes) {
	t.Helper()
	if err := json.Unmarshal(a.Value, &out); err != nil {
		t.Fatalf("a description is %s (%s): %v", a.Value, a.Error, err)
	}
	return out
}

func testAttributes(t *testing.T, x *meeting) {
	r := x.remote
	x.write(t, x.served, "file", content(10_000))
	x.write(t, x.served, "long", content(100))
	x.write(t, x.served, "private", content(1))
	when := fmt.Sprint(then.Unix())
	a := x.must(t,
		[]string{"chmod", r("file"), "640"}, []string{"truncate", r("file"), "777"}, []string{"utime", r("file"), when},
		[]string{"stat", r("file")},
		[]string{"truncate", r("long"), "100000"}, []string{"stat", r("long")},
		[]string{"chmod", r("private"), "0"}, []string{"stat", r("private")}, []string{"chmod", r("private"), "4755"},
		[]string{"utime", r("private"), "0"}, []string{"stat", r("private")}, []string{"stat", r("")},
	)
	if got := attributesOf(t, a[3]); got != (attributes{777, syscall.S_IFREG | 0o640, then.Unix()}) {
		t.Errorf("file is %+v", got)
	}
	if fi, err := os.Stat(filepath.Join(x.served, "file")); err != nil || fi.Mode() != 0o640 || !fi.ModTime().Equal(then) {
		t.Errorf("file is %v, %v", fi, err)
	}
	wantFile(t, filepath.Join(x.served, "file"), content(10_000)[:777])
	if got := attributesOf(t, a[5]); got.Size != 100_000 {
		t.Errorf("long is %+v", got)
	}
	wantFile(t, filepath.Join(x.served, "long"), append(content(100), make([]byte, 99_900)...))
	if got := attributesOf(t, a[7]); got.Mode != syscall.S_IFREG {
		t.Errorf("private is %+v", got)
	}
	// The server decides about the setuid bit.
	if got := attributesOf(t, a[10]); got.Mode&0o777 != 0o755 || got.Mtime != 0 {
		t.Errorf("private is %+v", got)
	}
	if got := attributesOf(t, a[11]); got.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		t.Errorf("the directory is %+v", got)
	}
	bad := x.d.do(t, x.login, []string{"stat", r("none")}, []string{"lstat", r("none/x")}, []string{"chmod", r("none"), "644"},
		[]string{"utime", r("none"), when}, []string{"truncate", r("none"), "1"}, []string{"get", r("none"), filepath.Join(x.local, "x")},
		[]string{"put", filepath.Join(x.served, "file"), r("none/x")}, []string{"remove", r("none")}, []string{"rmdir", r("none")},
		[]string{"list", r("none")}, []string{"readlink", r("none")})
	for i, a := range bad {
		if a.Kind != "not exist" {
			t.Errorf("what is missing is %q in operation %d: %s", a.Kind, i, a.Error)
		}
	}
}

func testDirectories(t *testing.T, x *meeting) {
	r := x.remote
	const many = 2000 // with such long names that the list takes many packets
	want := make([]string, many)
	if err := os.Mkdir(filepath.Join(x.served, "many"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range many {
		want[i] = fmt.Sprintf("entry with a long name %0140d", i)
		x.write(t, x.served, "many/"+want[i], nil)
	}
	a := x.d.do(t, x.login, []string{"list", r("many")},
		[]string{"mkdir", r("new")}, []string{"mkdir", r("new/er")}, []string{"list", r("new/er")}, []string{"realpath", r("new/../new/er/.")},
		[]string{"mkdir", r("new")}, []string{"rmdir", r("new")}, []string{"mkdir", r("none/x")}, []string{"remove", r("new")},
		[]string{"list", r("many/" + want[7])}, []string{"rmdir", r("new/er")}, []string{"rmdir", r("new")}, []string{"realpath", "."},
	)
	for i, a := range a {
		if refused := i >= 5 && i <= 9; refused != (a.Error != "") {
			t.Errorf("operation %d: %q", i, a.Error)
		}
	}
	wantNames(t, a[0], want)
	wantNames(t, a[3], nil)
	for i, want := range map[int]string{4: r("new/er"), 12: ""} {
		var got string
		if err := json.Unmarshal(a[i].Value, &got); err != nil || raw(got) != filepath.Join(x.login.home, want) {
			t.Errorf("realpath is %q, %v; want %q", got, err, filepath.Join(x.login.home, want))
		}
	}
	if _, err := os.Stat(filepath.Join(x.served, "new")); err == nil {
		t.Error("the directory is there after rmdir")
	}
}

func testSpace(t *testing.T, x *meeting) {
	if x.lacks("statvfs") {
		t.Skip("no statvfs")
	}
	a := x.must(t, []string{"statvfs", x.remote("")})
	var got struct{ Total, Free uint64 }
	if err := json.Unmarshal(a[0].Value, &got); err != nil {
		t.Fatal(err)
	}
	var want syscall.Statfs_t
	if err := syscall.Statfs(x.served, &want); err != nil {
		t.Fatal(err)
	}
	total, free := want.Blocks*uint64(want.Bsize), want.Bfree*uint64(want.Bsize)
	// Others may write to the same disk meanwhile.
	if got.Total != total || got.Free > got.Total || max(got.Free, free)-min(got.Free, free) > 4<<30 {
		t.Errorf("total %d and free %d, want %d and about %d", got.Total, got.Free, total, free)
	}
}
