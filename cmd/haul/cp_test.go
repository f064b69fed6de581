package main

import (
	"context"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/s3test"
	"github.com/haul-project/haul/store"
)

// startBucket starts an S3 server, and makes haul use it.
func startBucket(t *testing.T) *s3test.Server {
	t.Helper()
	s := s3test.New(t)
	t.Setenv("AWS_ENDPOINT_URL", s.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "us-east-1")
	return s
}

// Within one server, objects are copied without being sent.
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

// A server whose disk is full keeps the old file, and leaves no partial one.
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

// A watchedTree calls written when data is written to a file.
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

// If a copy is interrupted while the server copies, the old files stay, and nothing is added.
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
