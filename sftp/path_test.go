package sftp

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

func TestPaths(t *testing.T) {
	tests := []struct{ home, path, want string }{
		{"", "", "/"},
		{"", ".", "/"},
		{"", "/", "/"},
		{"", "//", "/"},
		{"", "..", "/"},
		{"", "/..", "/"},
		{"", "../../etc/passwd", "/etc/passwd"},
		{"", "/a/../../b", "/b"},
		{"", "a/./b//c/", "/a/b/c"},
		{"", "...", "/..."},
		{"", `a\..\b`, `/a\..\b`},
		{"", "~", "/~"},
		{"/area/in", "", "/area/in"},
		{"/area/in", "x", "/area/in/x"},
		{"/area/in", "..", "/area"},
		{"/area/in", "../../..", "/"},
		{"/area/in", "/x", "/x"},
		{"area/in/", "./x", "/area/in/x"},
		{"../..", "x", "/x"},
	}
	for _, test := range tests {
		p := newTestSession(t, func(_ *Server, a *Account) { a.Dir = test.home })
		if got := p.name(wire.AppendRealpath(nil, p.n(), test.path)); got != test.want {
			t.Errorf("from %q, REALPATH %q is %q, want %q", test.home, test.path, got, test.want)
		}
	}
	p := newTestSession(t, nil)
	p.want(wire.BadMessage, wire.AppendRealpath(nil, p.n(), "a\x00b"))
	p.want(wire.BadMessage, wire.AppendExpandPath(nil, p.n(), "~\x00b"))
	long := strings.Repeat("a", wire.MaxPath)
	if got := p.name(wire.AppendRealpath(nil, p.n(), long)); got != "/"+long {
		t.Errorf("a path as long as can be becomes one of %d bytes", len(got))
	}
	p.want(wire.BadMessage, wire.AppendStat(nil, p.n(), strings.Repeat("a/", 100)+strings.Repeat("b", 4000)))
	p.want(wire.NoSuchFile, wire.AppendStat(nil, p.n(), strings.Repeat("a", 200)))
}

func TestHome(t *testing.T) {
	p := newTestSession(t, func(_ *Server, a *Account) { a.Dir = "/area/in" })
	for path, want := range map[string]string{
		"~": "/area/in", "~/": "/area/in", "~/x": "/area/in/x", "~/../x": "/area/x", "~/../../..": "/",
		"~alice": "/area/in", "~alice/x": "/area/in/x", "": "/area/in", "x": "/area/in/x", "/x": "/x", "a~": "/area/in/a~",
	} {
		if got := p.name(wire.AppendExpandPath(nil, p.n(), path)); got != want {
			t.Errorf("expand-path %q is %q, want %q", path, got, want)
		}
	}
	p.want(wire.NoSuchFile, wire.AppendExpandPath(nil, p.n(), "~root"))
	for _, user := range []string{"", "alice"} {
		if got := p.name(wire.AppendHomeDirectory(nil, p.n(), user)); got != "/area/in" {
			t.Errorf("the home of %q is %q", user, got)
		}
	}
	p.want(wire.Failure, wire.AppendHomeDirectory(nil, p.n(), "root"))
}

// newJail returns a served directory next to one that must not be visible, whose name begins in
// the same way. Links lead from one to the other.
func newJail(t testing.TB) (tree *localdir.Dir, outside string) {
	top := t.TempDir()
	inside, outside := filepath.Join(top, "user"), filepath.Join(top, "user2")
	for _, dir := range []string{inside, outside, filepath.Join(inside, "sub")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o666); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"absolute": filepath.Join(outside, "secret"), "dir": outside, "relative": "../user2/secret",
		"up": "..", "sub/twice": "../../user2", "missing": "../user2/none", "etc": "/etc",
	} {
		if err := os.Symlink(target, filepath.Join(inside, link)); err != nil {
			t.Skip(err)
		}
	}
	root, err := os.OpenRoot(inside)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return localdir.New(root), outside
}

// No path and no link leads outside, for any operation, and errors do not reveal what exists
// outside (CVE-2026-32147, CVE-2026-53422).
func TestConfinement(t *testing.T) {
	tree, outside := newJail(t)
	p := newTestSession(t, func(_ *Server, a *Account) { a.Tree = tree })
	up := strings.Repeat("../", 30)
	pairs := [][2]string{ // a name that exists outside, and one that does not
		{"absolute", "missing"},
		{"relative", "missing"},
		{"dir/secret", "dir/none"},
		{"sub/twice/secret", "sub/twice/none"},
		{"up/user2/secret", "up/user2/none"},
		{"etc/passwd", "etc/none"},
		{up + outside + "/secret", up + outside + "/none"},
		{outside + "/secret", outside + "/none"},
		{"../user2/secret", "../user2/none"},
	}
	requests := map[string]func(name string) []byte{
		"open":    func(n string) []byte { return wire.AppendOpen(nil, p.n(), n, wire.OpenRead, wire.Attrs{}) },
		"stat":    func(n string) []byte { return wire.AppendStat(nil, p.n(), n) },
		"opendir": func(n string) []byte { return wire.AppendOpendir(nil, p.n(), n) },
		"setstat": func(n string) []byte {
			return wire.AppendSetstat(nil, p.n(), n, wire.Attrs{Flags: wire.AttrMode, Mode: 0o777})
		},
		"truncate": func(n string) []byte { return wire.AppendSetstat(nil, p.n(), n, wire.Attrs{Flags: wire.AttrSize}) },
		"statvfs":  func(n string) []byte { return wire.AppendStatVFS(nil, p.n(), n) },
		"check":    func(n string) []byte { return wire.AppendCheckFileName(nil, p.n(), n, "sha256", 0, 0, 0) },
	}
	for what, request := range requests {
		for _, pair := range pairs {
			there, missing := p.ask(request(pair[0])), p.ask(request(pair[1]))
			if there.Type != wire.TypeStatus || there.Status == wire.OK {
				t.Errorf("%s %s: %v %v", what, pair[0], there.Type, there.Status)
			}
			if there.Status != missing.Status || string(there.Message) != string(missing.Message) {
				t.Errorf("%s distinguishes %s (%v) from %s (%v)", what, pair[0], there.Status, pair[1], missing.Status)
			}
		}
	}
	// Requests that create or remove names must not work outside either.
	for _, name := range []string{"dir/new", "up/new", "sub/twice/new", "up/user2/new"} {
		for _, packet := range [][]byte{
			wire.AppendOpen(nil, p.n(), name, openAnew, wire.Attrs{}),
			wire.AppendMkdir(nil, p.n(), name, wire.Attrs{}),
			wire.AppendSymlink(nil, p.n(), "x", name),
			wire.AppendPosixRename(nil, p.n(), "sub", name),
			wire.AppendHardlink(nil, p.n(), "absolute", name),
			wire.AppendRemove(nil, p.n(), strings.Replace(name, "new", "secret", 1)),
			wire.AppendPosixRename(nil, p.n(), strings.Replace(name, "new", "secret", 1), "mine"),
			wire.AppendHardlink(nil, p.n(), strings.Replace(name, "new", "secret", 1), "mine"),
		} {
			p.id = wireID(packet)
			if r := p.ask(packet); r.Type != wire.TypeStatus || r.Status == wire.OK {
				t.Errorf("%s: %v %v", name, r.Type, r.Status)
			}
		}
	}
	left, err := os.ReadDir(outside)
	if err != nil || len(left) != 1 {
		t.Errorf("outside there is %v, %v", left, err)
	}
	if b, err := os.ReadFile(filepath.Join(outside, "secret")); string(b) != "secret" {
		t.Errorf("the secret is %q, %v", b, err)
	}
	// REALPATH does not reveal which names exist: it only cleans the path as text.
	for _, pair := range pairs {
		for _, name := range pair {
			if got := p.name(wire.AppendRealpath(nil, p.n(), name)); !strings.HasPrefix(got, "/") || strings.Contains(got, "..") {
				t.Errorf("REALPATH %s is %s", name, got)
			}
		}
	}
}

// Names with any characters that the system allows work unchanged.
func TestOddNames(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("names are what the system makes of them")
	}
	tree, _ := newJail(t)
	p := newTestSession(t, func(_ *Server, a *Account) { a.Tree = tree })
	names := []string{"new\nline", " ", "-rf", "a\\b", "\x01\x7f", "日本語", `"quoted"`, "*?[", strings.Repeat("n", 255)}
	p.want(wire.OK, wire.AppendMkdir(nil, p.n(), "odd", wire.Attrs{}))
	for _, name := range names {
		p.put("odd/"+name, name)
		p.wantFile("odd/"+name, name)
	}
	entries, _ := p.list("odd")
	got := map[string]bool{}
	for _, e := range entries {
		got[string(e.Name)] = true
		if !strings.HasSuffix(string(e.Long), string(e.Name)) {
			t.Errorf("%q has the line %q", e.Name, e.Long)
		}
	}
	for _, name := range names {
		if !got[name] {
			t.Errorf("%q is not listed", name)
		}
	}
	if _, status := p.tryOpen("odd/"+strings.Repeat("n", 256), openAnew, wire.Attrs{}); status != wire.BadMessage {
		t.Errorf("a name too long: %v", status)
	}
}

// lastParent finds elements that are "..", and no others.
func TestLastParent(t *testing.T) {
	for path, want := range map[string]int{
		"": 0, "..": 2, "/..": 3, "a/..": 4, "a/../b": 4, "../b": 2, "a/../b/../c": 9,
		"...": 0, "a..": 0, "..a": 0, "a/..b/c": 0, "../...": 2, "....": 0, "/../..a": 3, ".": 0,
	} {
		if got := lastParent([]byte(path)); got != want {
			t.Errorf("in %q the last ends at %d, want %d", path, got, want)
		}
	}
}

// FuzzPaths checks that paths become valid names.
func FuzzPaths(f *testing.F) {
	for _, s := range []string{"", ".", "..", "/", "a/../../b", "//", "~", "\x00", `C:\x`, "a/./b/.."} {
		f.Add(s, "")
		f.Add(s, "home/x")
	}
	f.Fuzz(func(t *testing.T, path, home string) {
		if strings.Contains(home, "\x00") {
			return
		}
		c := &userConn{info: &Conn{}, server: &Server{}}
		c.enter(&Account{Tree: store.Mem(0), Dir: home})
		name, err := c.paths.resolve([]byte(path))
		if strings.Contains(path, "\x00") != (err != nil) {
			t.Fatalf("%q: %v", path, err)
		}
		if err != nil {
			return
		}
		for part := range strings.SplitSeq(name, "/") {
			if part == "" || part == ".." || part == "." && name != "." {
				t.Errorf("%q below %q becomes %q", path, home, name)
			}
		}
		if !fs.ValidPath(strings.ToValidUTF8(name, "?")) { // stores check the rest
			t.Errorf("%q becomes %q", path, name)
		}
		if again, err := c.paths.resolve([]byte(shown(name))); again != name || err != nil {
			t.Errorf("%q is shown as %q, which becomes %q", name, shown(name), again)
		}
	})
}
