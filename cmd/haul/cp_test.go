package main

import (
	"context"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/s3test"
	"github.com/haul-project/haul/store"
)

// cp copies files and trees on one server as cp(1) does: the server does it, where it can.
func TestCp(t *testing.T) {
	files := map[string]string{"a": "A", "empty": "", "d/f": "F", "d/sub/g": "G", "in/x": ""}
	for _, c := range []struct {
		args string
		want map[string]string // besides the files
		says string
	}{
		{"-v lab:a lab:b", map[string]string{"b": "A"}, "copied lab:a -> lab:b (on the server)"},
		{"-v lab:empty lab:a lab:in", map[string]string{"in/empty": "", "in/a": "A"}, "in/a (on the server)"},
		{"lab:a lab:in/x", map[string]string{"in/x": "A"}, ""},
		{"-r lab:d lab:in/", map[string]string{"in/d/f": "F", "in/d/sub/g": "G"}, ""},
		{"-r lab:d lab:new", map[string]string{"new/f": "F", "new/sub/g": "G"}, ""},
		{"-r lab:d/. lab:in", map[string]string{"in/f": "F", "in/sub/g": "G"}, ""},
		{"lab:d/[fg] lab:in", map[string]string{"in/f": "F"}, ""},
		{"-r --dry-run lab:d lab:new", nil, "would copy 2 files"},
		{"-n lab:a lab:in/x", nil, "0 files"},
		{"-rn lab:d lab:a lab:in", map[string]string{"in/a": "A", "in/d/f": "F", "in/d/sub/g": "G"}, ""},
		{"--verify -v lab:a lab:b", map[string]string{"b": "A"}, "(on the server)"},
		{"-r lab:d lab:dd", map[string]string{"dd/f": "F", "dd/sub/g": "G"}, ""}, // whose name only begins alike
		{"-v lab:a twin:b", map[string]string{"b": "A"}, "(on the server)"},      // the same server
	} {
		l := startLab(t, files)
		code, _, msg := l.haul(append([]string{"cp"}, strings.Fields(c.args)...)...)
		if code != 0 || !strings.Contains(msg, c.says) {
			t.Errorf("cp %s: exit code %d, %s", c.args, code, msg)
		}
		all := maps.Clone(files)
		maps.Copy(all, c.want)
		wantTree(t, l.dir, all)
	}
}

// A refused cp leaves everything as it was.
func TestCpRefused(t *testing.T) {
	files := map[string]string{"a": "A", "d/f": "F", "d/sub/g": "G", "in/x": ""}
	l, w := startLab(t, files), startWeb(t, files)
	for args, want := range map[string]int{
		"lab:a lab:a": exitFailed, "lab:a lab:./d/../a": exitFailed, "lab:a lab:": exitFailed, "-r lab:d lab:d": exitFailed, "-r lab:d lab:d/sub": exitFailed, "-r lab:d lab:d/new": exitFailed,
		"-r lab:d/. lab:d": exitFailed, "-r lab: lab:d": exitFailed, "lab:d lab:new": exitFailed, "lab:missing lab:b": exitNotFound, "lab:z* lab:in": exitNotFound, "lab:a lab:none/": 0,
		"lab:a lab:none2/b": exitNotFound, "-r lab:d lab:a": exitFailed, "lab:a": exitUsage, "a lab:b": exitUsage, "lab:a b": exitUsage,
		"lab:a tftp://host/a": exitUsage, "lab:a https://host/b": exitUsage, "--links x lab:a lab:b": exitUsage, "--parallel 3 lab:a lab:b": exitUsage,
		w.URL + "/a " + w.URL + "/a": exitFailed, "-p " + w.URL + "/a " + w.URL + "/b": exitUsage, "-r " + w.URL + "/d/ " + w.URL + "/d/sub/": exitFailed,
	} {
		run := l.haul
		if strings.Contains(args, w.URL) {
			run = func(args ...string) (int, string, string) { return haul(t, args...) }
		}
		code, _, msg := run(append([]string{"cp"}, strings.Fields(args)...)...)
		if code != want {
			t.Errorf("cp %s: exit code %d, want %d: %s", args, code, want, msg)
		}
	}
	all := maps.Clone(files)
	all["none/a"] = "A"
	wantTree(t, l.dir, all)
	wantTree(t, w.dir, files)
}

// A symbolic link does not hide that a directory would be copied into itself.
func TestCpThroughLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no symbolic links")
	}
	l := startLab(t, map[string]string{"d/f": "F", "e/g": "G"})
	for name, to := range map[string]string{"way": "d", "d/to": "../e", "d/up": ".."} {
		if err := os.Symlink(to, filepath.Join(l.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range []string{"-r lab:d lab:way", "-r lab:d lab:way/", "-r lab:way lab:d/new", "lab:d/f lab:way", "lab:d/f lab:way/f"} {
		if code, _, msg := l.haul(append([]string{"cp"}, strings.Fields(args)...)...); code == 0 || !strings.Contains(msg, "target") {
			t.Errorf("cp %s: exit code %d, %s", args, code, msg)
		}
	}
	// Links that are followed lead to the target, and above it.
	code, _, msg := l.haul("cp", "-r", "--links", "follow", "lab:d", "lab:e")
	if code == 0 || strings.Count(msg, "leads to the directory that is copied to") != 2 {
		t.Errorf("exit code %d, %s", code, msg)
	}
	if b, err := os.ReadFile(filepath.Join(l.dir, "e/d/f")); err != nil || string(b) != "F" {
		t.Errorf("%q, %v", b, err)
	}
	l.must("cp", "-r", "--links", "keep", "lab:d", "lab:kept")
	if to, err := os.Readlink(filepath.Join(l.dir, "kept/to")); err != nil || to != "../e" {
		t.Errorf("a link that is kept: %q, %v", to, err)
	}
}

// Between servers, and over HTTP, the data passes through this machine.
func TestCpThroughHere(t *testing.T) {
	files := map[string]string{"a": strings.Repeat("x", 300_000), "d/f": "F"}
	l, other, w := startLab(t, files), startLab(t, nil), startWeb(t, files)
	known, err := os.ReadFile(other.known)
	if err != nil {
		t.Fatal(err)
	}
	mine, err := os.ReadFile(l.known)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, l.known, string(mine)+string(known))
	l.configure("IdentityFile "+l.key, "IdentityFile "+other.key)
	if code, _, msg := l.haul("cp", "-rv", "lab:a", "lab:d", other.url("/")); code != 0 || !strings.Contains(msg, "/a (through this machine)") {
		t.Errorf("to another server: exit code %d, %s", code, msg)
	}
	wantTree(t, other.dir, files)
	if code, _, msg := haul(t, "cp", "-v", w.URL+"/d/f", w.URL+"/a", w.URL+"/d/"); code == 0 || !strings.Contains(msg, "d/a (through this machine)") {
		t.Errorf("over HTTP, with a file that would become itself: exit code %d, %s", code, msg)
	}
	wantTree(t, w.dir, map[string]string{"a": files["a"], "d/f": "F", "d/a": files["a"]})
}

// startBucket starts a server of S3, and has haul find it.
func startBucket(t *testing.T) *s3test.Server {
	t.Helper()
	s := s3test.New(t)
	t.Setenv("AWS_ENDPOINT_URL", s.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "us-east-1")
	return s
}

// Buckets of one server copy objects without sending them.
func TestCpS3(t *testing.T) {
	s := startBucket(t)
	content := strings.Repeat("x", 1<<20)
	s.Put("a", content)
	s.Put("d/f g", "F")
	for _, args := range []string{"s3://bucket/a s3://bucket/b", "-r s3://bucket/d s3://bucket/new/", "s3://bucket/a s3://other/c"} {
		if code, _, msg := haul(t, append([]string{"cp", "-v"}, strings.Fields(args)...)...); code != 0 || !strings.Contains(msg, "(on the server)") {
			t.Errorf("cp %s: exit code %d, %s", args, code, msg)
		}
	}
	for key, want := range map[string]string{"b": content, "new/d/f g": "F", "c": content} {
		if got, _ := s.Content(key); got != want {
			t.Errorf("%s is %.20q, want %.20q", key, got, want)
		}
	}
	if n := s.Sent("a"); n != 0 {
		t.Errorf("%d bytes were sent", n)
	}
	if code, _, msg := haul(t, "cp", "s3://bucket/a", "s3://bucket/a"); code != exitFailed || !strings.Contains(msg, "are one") {
		t.Errorf("to itself: exit code %d, %s", code, msg)
	}
	s.Fail(-1, func(r *http.Request) bool { return r.Header.Get("X-Amz-Copy-Source") != "" }, 403, "AccessDenied")
	if code, _, _ := haul(t, "cp", "s3://bucket/a", "s3://bucket/refused"); code != exitRefused {
		t.Errorf("refused: exit code %d", code)
	}
	if _, there := s.Content("refused"); there {
		t.Error("what was refused is there")
	}
}

// A server whose disk is full leaves no half file, and the old one.
func TestCpFull(t *testing.T) {
	l := startLabWith(t, labOptions{tree: func(tr store.Tree) store.Tree { return fullTree{tr, true} }}, map[string]string{"a": strings.Repeat("x", 100_000), "b": "old"})
	for _, args := range []string{"lab:a lab:b", "lab:a lab:c"} {
		code, _, msg := l.haul(append([]string{"cp"}, strings.Fields(args)...)...)
		if code == 0 || !strings.Contains(msg, "space") {
			t.Errorf("cp %s: exit code %d, %s", args, code, msg)
		}
	}
	wantTree(t, l.dir, map[string]string{"a": strings.Repeat("x", 100_000), "b": "old"})
}

// A watchedTree calls written when something is written to a file.
type watchedTree struct {
	store.Tree
	written func()
}

func (s watchedTree) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	u, err := s.Tree.Create(ctx, name, c)
	return watchedUpload{u, s.written}, err
}

func (s watchedTree) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	h, err := s.Tree.OpenFile(ctx, name, a)
	return watchedHandle{h, s.written}, err
}

type watchedUpload struct {
	store.Upload
	written func()
}

func (u watchedUpload) WriteAt(p []byte, off int64) (int, error) {
	u.written()
	return u.Upload.WriteAt(p, off)
}

type watchedHandle struct {
	store.Handle
	written func()
}

func (h watchedHandle) WriteAt(p []byte, off int64) (int, error) {
	h.written()
	return h.Handle.WriteAt(p, off)
}

// A copy that is interrupted while the server copies leaves what was there before, and no more.
func TestCpInterrupted(t *testing.T) {
	var interrupt atomic.Pointer[context.CancelFunc]
	written := func() { (*interrupt.Load())() }
	files := map[string]string{"a": strings.Repeat("x", 100_000), "b": "old", "d/f": "F", "d/g": "G"}
	l := startLabWith(t, labOptions{tree: func(tr store.Tree) store.Tree { return watchedTree{tr, written} }}, files)
	for _, args := range []string{"lab:a lab:b", "lab:a lab:c", "-r lab:d lab:new"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		interrupt.Store(&cancel)
		cmd := newRoot()
		cmd.SetArgs(l.args(append([]string{"cp"}, strings.Fields(args)...)...))
		var out lockedBuffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		if err := cmd.ExecuteContext(ctx); exitCode(err) != exitInterrupted {
			t.Errorf("cp %s: %v", args, err)
		}
	}
	var left []string
	deadline := time.Now().Add(labPatience)
	for again := true; again && time.Now().Before(deadline); again = len(left) > 0 {
		left = nil
		found, err := os.ReadDir(l.dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range found {
			if n := e.Name(); n != "a" && n != "b" && n != "d" {
				left = append(left, n)
			}
		}
		time.Sleep(time.Millisecond)
	}
	if len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
	wantTree(t, l.dir, files)
}
