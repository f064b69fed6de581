//go:build unix

package sftpserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Types of packets (draft-ietf-secsh-filexfer-02, section 3), and flags of OPEN.
const (
	typeInit, typeVersion                  = 1, 2
	typeOpen, typeClose, typeWrite         = 3, 4, 6
	typeSetstat, typeRemove                = 9, 13
	typeMkdir, typeRmdir, typeRealpath     = 14, 15, 16
	typeStat, typeRename, typeSymlink      = 17, 18, 20
	typeStatus, typeHandle, typeName       = 101, 102, 104
	typeExtended, typeAttrs                = 200, 105
	statusOK, statusMissing, statusRefused = 0, 2, 3
	openWrite, openCreate, openTruncate    = 2, 8, 16
)

// A peer is a client of Run.
type peer struct {
	t        *testing.T
	to, from *os.File
	ended    chan error
	log      lockedBuffer
	cancel   context.CancelCauseFunc
	id       uint32
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// run runs a server whose log is in the peer.
func run(t *testing.T, c Config) *peer {
	t.Helper()
	in, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, to: to, from: from, ended: make(chan error, 1)}
	ctx, cancel := context.WithCancelCause(t.Context())
	p.cancel = cancel
	if c.syslog == "" {
		c.Stderr, c.Level = true, levelDebug3
	}
	go func() {
		err := Run(ctx, c, in, out, &p.log)
		_ = in.Close()
		_ = out.Close()
		p.ended <- err
	}()
	t.Cleanup(func() { _ = to.Close(); _ = from.Close() })
	return p
}

// begin begins the session. It returns the names of the extensions, and their data.
func (p *peer) begin() string {
	p.t.Helper()
	p.send(append([]byte{typeInit}, 0, 0, 0, 3))
	kind, body := p.reply()
	if kind != typeVersion {
		p.t.Fatalf("INIT is answered by %d", kind)
	}
	return string(body)
}

func (p *peer) send(packet []byte) {
	p.t.Helper()
	if _, err := p.to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(packet))), packet...)); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) reply() (kind byte, body []byte) {
	p.t.Helper()
	var head [4]byte
	if _, err := io.ReadFull(p.from, head[:]); err != nil {
		p.t.Fatalf("no reply: %v; the log has %s", err, p.log.String())
	}
	body = make([]byte, binary.BigEndian.Uint32(head[:]))
	if _, err := io.ReadFull(p.from, body); err != nil {
		p.t.Fatal(err)
	}
	return body[0], body[1:]
}

// ask sends a request of strings and numbers, and returns the reply without its id.
func (p *peer) ask(kind byte, fields ...any) (byte, []byte) {
	p.t.Helper()
	p.id++
	b := binary.BigEndian.AppendUint32([]byte{kind}, p.id)
	for _, f := range fields {
		switch f := f.(type) {
		case string:
			b = append(binary.BigEndian.AppendUint32(b, uint32(len(f))), f...)
		case int:
			b = binary.BigEndian.AppendUint32(b, uint32(f))
		case int64:
			b = binary.BigEndian.AppendUint64(b, uint64(f))
		}
	}
	p.send(b)
	answer, body := p.reply()
	return answer, body[4:]
}

// want sends a request and expects a STATUS reply with that code.
func (p *peer) want(code int, kind byte, fields ...any) {
	p.t.Helper()
	if answer, body := p.ask(kind, fields...); answer != typeStatus || int(binary.BigEndian.Uint32(body)) != code {
		p.t.Errorf("request %d of %q is answered by %d, %q; want status %d", kind, fields, answer, body, code)
	}
}

// open opens a file for writing from scratch.
func (p *peer) open(name string) (handle string) {
	p.t.Helper()
	answer, body := p.ask(typeOpen, name, openWrite|openCreate|openTruncate, 0)
	if answer != typeHandle {
		p.t.Fatalf("open %s is answered by %d, %q", name, answer, body)
	}
	return string(body[4:])
}

// path requests the real path of a path.
func (p *peer) path(of string) string {
	p.t.Helper()
	answer, body := p.ask(typeRealpath, of)
	if answer != typeName {
		p.t.Fatalf("realpath of %q is answered by %d, %q", of, answer, body)
	}
	return string(body[8:][:binary.BigEndian.Uint32(body[4:])])
}

// end ends the session like a client that leaves.
func (p *peer) end() error {
	_ = p.to.Close()
	return <-p.ended
}

// dir returns a new directory by its real path.
func dir(t *testing.T) string {
	t.Helper()
	d, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func wantOnly(t *testing.T, dir string, want ...string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.Name())
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("in the directory are %q, want %q", got, want)
	}
}

// Without --root a session has the files of the machine; with it, only those below the root.
func TestFiles(t *testing.T) {
	d := dir(t)
	if err := os.Symlink("/etc/passwd", filepath.Join(d, "passwd")); err != nil {
		t.Fatal(err)
	}
	p := run(t, Config{Start: d})
	if extensions := p.begin(); !strings.Contains(extensions, "posix-rename@openssh.com") {
		t.Errorf("announced are %q", extensions)
	}
	if got := p.path("."); got != d {
		t.Errorf("it begins in %s", got)
	}
	if answer, _ := p.ask(typeStat, "passwd"); answer != typeAttrs {
		t.Error("a link does not lead to /etc/passwd")
	}
	p.want(statusOK, typeClose, p.open("file"))
	if err := p.end(); err != nil {
		t.Error(err)
	}
	wantOnly(t, d, "file", "passwd")

	p = run(t, Config{Root: d})
	p.begin()
	if got := p.path("../../.."); got != "/" {
		t.Errorf("with a root, it begins in %s", got)
	}
	p.want(statusMissing, typeStat, "passwd")
	p.want(statusMissing, typeStat, "/etc/passwd")
	for _, name := range []string{"/../up", "../up", "a\x00b"} {
		_, _ = p.ask(typeOpen, name, openWrite|openCreate|openTruncate, 0)
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
	wantOnly(t, d, "file", "passwd")
	if _, err := os.Lstat(filepath.Join(filepath.Dir(d), "up")); err == nil {
		t.Error("a name leads out of the root")
	}
}

// Paths resolve as they do in the system. OpenSSH's sftp asks for this before "cd".
func TestRealpath(t *testing.T) {
	d := dir(t)
	if err := errors.Join(os.MkdirAll(filepath.Join(d, "a/b"), 0o755), os.Symlink("a/b", filepath.Join(d, "link")),
		os.WriteFile(filepath.Join(d, "a/file"), []byte("x"), 0o644), os.Symlink("nowhere", filepath.Join(d, "dangling"))); err != nil {
		t.Fatal(err)
	}
	p := run(t, Config{Start: d})
	p.begin()
	for of, want := range map[string]string{
		"link": "/a/b", "link/..": "/a", "link/../file": "/a/file", "link/new": "/a/b/new", "link/../..": "", "a/../link/": "/a/b", "dangling": "/dangling", ".../x/..": "-", "a..b": "/a..b",
	} {
		if want == "-" {
			if answer, _ := p.ask(typeRealpath, of); answer != typeStatus {
				t.Errorf("%s, of which a part is missing, is answered by %d", of, answer)
			}
		} else if got := p.path(of); got != d+want {
			t.Errorf("%s is %s, want %s", of, got, d+want)
		}
	}
	for _, missing := range []string{"none/x", "none/../a", "a/file/..", ".../.."} {
		if answer, _ := p.ask(typeRealpath, missing); answer != typeStatus {
			t.Errorf("%s is answered by %d", missing, answer)
		}
	}
	if answer, _ := p.ask(typeStat, "link/../file"); answer != typeAttrs {
		t.Error("behind a link, .. is taken as text")
	}
	p.want(statusMissing, typeStat, "none/../a")
	self, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	home, err := filepath.EvalSymlinks(self.HomeDir)
	if err != nil {
		t.Skipf("the home directory of this user: %v", err)
	}
	for _, of := range []string{"~", "~/", "~" + self.Username} {
		if answer, body := p.ask(typeExtended, "expand-path@openssh.com", of); answer != typeName || !strings.Contains(string(body), home) {
			t.Errorf("%s is answered by %d, %q", of, answer, body)
		}
	}
	p.want(statusMissing, typeExtended, "expand-path@openssh.com", "~nobody of that name/x")
	if answer, body := p.ask(typeExtended, "home-directory", self.Username); answer != typeName || !strings.Contains(string(body), self.HomeDir) {
		t.Errorf("the home directory is answered by %d, %q", answer, body)
	}
}

// A session whose directory cannot be used begins elsewhere, or not at all.
func TestStart(t *testing.T) {
	self, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	d := dir(t)
	if err := os.Mkdir(filepath.Join(d, self.Username), 0o755); err != nil {
		t.Fatal(err)
	}
	p := run(t, Config{Root: d + "/%u"})
	p.begin()
	p.want(statusOK, typeClose, p.open("file"))
	if err := p.end(); err != nil {
		t.Error(err)
	}
	wantOnly(t, filepath.Join(d, self.Username), "file")

	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Config{{Start: d + "/missing"}, {Start: d + "/%u/file"}} {
		p = run(t, c)
		p.begin()
		if got := p.path("."); got != here || !strings.Contains(p.log.String(), "cannot begin") {
			t.Errorf("a session of %+v begins in %s; the log has %s", c, got, p.log.String())
		}
	}
	for _, c := range []Config{{Root: d + "/missing"}, {Root: "%x"}, {Start: "50%"}} {
		if err := <-run(t, c).ended; err == nil {
			t.Errorf("%+v is served", c)
		}
	}
	for text, want := range map[string]string{"%d/x": self.HomeDir + "/x", "%%d%u%%": "%d" + self.Username + "%", "": ""} {
		if got, err := expand(text, self); got != want || err != nil {
			t.Errorf("%q is %q, %v", text, got, err)
		}
	}
}

// -R refuses every change.
func TestReadOnly(t *testing.T) {
	d := dir(t)
	for _, name := range []string{"file", "other"} {
		if err := os.WriteFile(filepath.Join(d, name), []byte("content"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(d, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := run(t, Config{Start: d, ReadOnly: true})
	p.begin()
	p.want(statusRefused, typeOpen, "file", openWrite, 0)
	p.want(statusRefused, typeOpen, "new", openWrite|openCreate|openTruncate, 0)
	p.want(statusRefused, typeSetstat, "file", 4, 0o600)
	p.want(statusRefused, typeRemove, "file")
	p.want(statusRefused, typeMkdir, "new", 0)
	p.want(statusRefused, typeRmdir, "dir")
	p.want(statusRefused, typeRename, "file", "new")
	p.want(statusRefused, typeSymlink, "file", "new")
	for _, extension := range []string{"posix-rename@openssh.com", "hardlink@openssh.com"} {
		p.want(statusRefused, typeExtended, extension, "file", "other")
	}
	p.want(statusRefused, typeExtended, "lsetstat@openssh.com", "file", 4, 0o600)
	if answer, _ := p.ask(typeOpen, "file", 1, 0); answer != typeHandle {
		t.Errorf("reading is answered by %d", answer)
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
	wantOnly(t, d, "dir", "file", "other")
	if text := p.log.String(); !strings.Contains(text, `remove name "`+d+`/file": permission denied`) {
		t.Errorf("the log has %s", text)
	}
}

// -P refuses requests, and -p all others.
func TestRequests(t *testing.T) {
	d := dir(t)
	for _, c := range []Config{{Deny: []string{"remove", "posix-rename", "mkdir"}}, {Allow: []string{"open", "close", "stat", "realpath", "rmdir"}}} {
		c.Start = d
		p := run(t, c)
		if extensions := p.begin(); strings.Contains(extensions, "posix-rename") {
			t.Errorf("announced are %q", extensions)
		}
		p.want(statusOK, typeClose, p.open("file"))
		p.want(statusRefused, typeRemove, "file")
		p.want(statusRefused, typeMkdir, "dir", 0)
		p.want(statusRefused, typeExtended, "posix-rename@openssh.com", "file", "new")
		p.want(statusMissing, typeRmdir, "none")
		if err := p.end(); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []Config{{Deny: []string{"opne"}}, {Allow: []string{""}}} {
		if err := <-run(t, c).ended; err == nil || !strings.Contains(err.Error(), "-Q requests") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A user who may not read or open a file gets no hashes of its bytes.
func TestRequestsHashes(t *testing.T) {
	d := dir(t)
	if err := os.WriteFile(filepath.Join(d, "file"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"read", "open"} {
		p := run(t, Config{Start: d, Deny: []string{name}})
		p.begin()
		first := []any{"sha256", int64(0), int64(1), 0}
		p.want(statusRefused, typeExtended, append([]any{"check-file-name", "file"}, first...)...)
		if name == "read" {
			handle := p.open("new")
			p.want(statusRefused, typeExtended, append([]any{"check-file-handle", handle}, first...)...)
			p.want(statusRefused, typeExtended, append([]any{"check-file", handle}, first...)...)
		}
		if err := p.end(); err != nil {
			t.Error(err)
		}
	}
}

// An interrupted upload leaves no file, and an existing file stays unchanged, whether the client
// leaves, even within a packet, or the server exits. With InPlace, the received part stays, so that
// a client can resume the upload.
func TestCutUpload(t *testing.T) {
	for _, inPlace := range []bool{false, true} {
		for how, end := range map[string]func(p *peer) error{
			"left":    (*peer).end,
			"cut":     func(p *peer) error { _, _ = p.to.Write([]byte{0, 0, 0, 50, typeWrite, 0}); return p.end() },
			"garbage": func(p *peer) error { _, _ = p.to.Write(bytes.Repeat([]byte{0xff}, 64)); return <-p.ended },
			"signal":  func(p *peer) error { p.cancel(errors.New("terminated")); return <-p.ended },
		} {
			d := dir(t)
			if err := os.WriteFile(filepath.Join(d, "old"), []byte("what was there"), 0o644); err != nil {
				t.Fatal(err)
			}
			p := run(t, Config{Start: d, InPlace: inPlace})
			p.begin()
			for _, name := range []string{"new", "old"} {
				p.want(statusOK, typeWrite, p.open(name), int64(0), "half")
			}
			if err := end(p); (err == nil) != (how == "left") {
				t.Errorf("%s: it ends by %v", how, err)
			}
			old, err := os.ReadFile(filepath.Join(d, "old"))
			if want := map[bool]string{false: "what was there", true: "half"}[inPlace]; string(old) != want {
				t.Errorf("%s, in place: %v: the old file has %q, %v", how, inPlace, old, err)
			}
			if inPlace {
				wantOnly(t, d, "new", "old")
			} else {
				wantOnly(t, d, "old")
			}
			if text := p.log.String(); !strings.Contains(text, `forced close "`+d+`/new" bytes read 0 written 4`) {
				t.Errorf("%s: the log has %s", how, text)
			}
		}
	}
}

// A file that cannot be replaced without a side effect is written in place.
func TestWrittenInPlace(t *testing.T) {
	d := dir(t)
	first, second := filepath.Join(d, "first"), filepath.Join(d, "second")
	if err := errors.Join(os.WriteFile(first, []byte("what was there"), 0o644), os.Link(first, second)); err != nil {
		t.Fatal(err)
	}
	p := run(t, Config{Start: d})
	p.begin()
	for _, name := range []string{"first", "/dev/null"} {
		h := p.open(name)
		p.want(statusOK, typeWrite, h, int64(0), "new")
		p.want(statusOK, typeClose, h)
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
	for _, name := range []string{first, second} {
		if b, err := os.ReadFile(name); string(b) != "new" {
			t.Errorf("%s has %q, %v", name, b, err)
		}
	}
	wantOnly(t, d, "first", "second")
}

// If a client accepts no more answers, the session ends, but not the process.
func TestNobodyReads(t *testing.T) {
	p := run(t, Config{Start: dir(t)})
	p.begin()
	_ = p.from.Close()
	p.send([]byte{typeRealpath, 0, 0, 0, 1, 0, 0, 0, 1, '.'})
	if err := p.end(); err != nil {
		t.Errorf("it ends by %v", err)
	}
}

func TestUmask(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	var c Config
	if err := c.Umask.Set("0027"); err != nil {
		t.Fatal(err)
	}
	c.Start = dir(t)
	p := run(t, c)
	p.begin()
	p.want(statusOK, typeMkdir, "dir", 0)
	p.want(statusOK, typeClose, p.open("file"))
	_ = p.end()
	for name, want := range map[string]fs.FileMode{"dir": 0o750, "file": 0o640} {
		if fi, err := os.Stat(filepath.Join(c.Start, name)); err != nil || fi.Mode().Perm() != want {
			t.Errorf("%s is %v, %v", name, fi.Mode(), err)
		}
	}
}

// Names in the log stay on one line, whatever characters they contain.
func TestLogLines(t *testing.T) {
	d := dir(t)
	p := run(t, Config{Start: d})
	p.begin()
	p.want(statusOK, typeMkdir, "evil\nsession opened for local user root", 0)
	_ = p.end()
	lines := strings.Split(strings.TrimSpace(p.log.String()), "\r\n")
	if len(lines) != 3 || lines[1] != `mkdir name "`+d+`/evil\nsession opened for local user root"` {
		t.Errorf("the log has %q", lines)
	}
}

// Invalid values are refused. The values of OpenSSH are accepted in upper and lower case.
func TestValues(t *testing.T) {
	var u Umask
	var l Level
	var f Facility
	for _, set := range []struct {
		set   func(string) error
		value string
		ok    bool
	}{
		{u.Set, "022", true}, {u.Set, "0777", true}, {u.Set, "", false}, {u.Set, "8", false}, {u.Set, "1000", false}, {u.Set, "-1", false}, {u.Set, "u=rwx", false},
		{l.Set, "info", true}, {l.Set, "DEBUG1", true}, {l.Set, "Quiet", true}, {l.Set, "", false}, {l.Set, "LOUD", false}, {l.Set, "1", false},
		{f.Set, "auth", true}, {f.Set, "LOCAL7", true}, {f.Set, "LOCAL8", false}, {f.Set, "", false}, {f.Set, "MAIL", false},
	} {
		if err := set.set(set.value); (err == nil) != set.ok {
			t.Errorf("%q: %v", set.value, err)
		}
	}
	if l != levelQuiet || f.String() != "LOCAL7" || u.String() != "777" {
		t.Errorf("the last are %v, %v, %v", &l, &f, &u)
	}
}
