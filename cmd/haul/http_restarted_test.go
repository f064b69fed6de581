//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// restartedSize is how much is copied by restartedRate while the server is killed.
	restartedSize = 64 << 20
	restartedRate = "40M"
)

// killAndRestart kills a server of HTTP, and starts it again where it was, after a while.
func (s *httpChild) killAndRestart(gone time.Duration, args ...string) *httpChild {
	s.t.Helper()
	s.signal(syscall.SIGKILL)
	s.wantExit(-1)
	time.Sleep(gone)
	again := &httpChild{child: runChild(s.t, childOptions{}, append([]string{"serve", "--http", strings.TrimPrefix(s.at, "http://")}, args...)...)}
	again.awaitHTTP("http")
	return again
}

// awaitStrong waits until a server has a strong tag for a file: while the file is
// young, it has none.
func (s *httpChild) awaitStrong(name string) {
	s.t.Helper()
	for late := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		resp, _ := s.ask("HEAD "+name, "")
		if strings.HasPrefix(resp.Header.Get("ETag"), `"`) {
			return
		}
		if time.Now().After(late) {
			s.t.Fatalf("the tag is %s", resp.Header.Get("ETag"))
		}
	}
}

// A server that is killed in the middle of a get, and comes back, is found again, and
// the get goes on.
func TestHTTPServerRestartedGet(t *testing.T) {
	t.Parallel() // it waits most of the time
	content := killedContent(t)[:restartedSize]
	dir := servedDir(t, map[string]string{"big": string(content)})
	s := startHTTP(t, dir)
	s.awaitStrong("/big")
	for _, rate := range []string{restartedRate, "16M", "8M"} {
		here := t.TempDir()
		c := runChild(t, childOptions{}, "get", "--limit", rate, s.at+"/big", here)
		const some = 8 << 20
		awaitHidden(t, here, "", func(b []byte) bool { return len(b) > some && bytes.Equal(b[some-64:some], content[some-64:some]) })
		s = s.killAndRestart(5*time.Second, dir)
		told := c.wantExit(0)
		if got, err := os.ReadFile(filepath.Join(here, "big")); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d other bytes have come, %v", len(got), err)
		}
		if !strings.Contains(told, "haul tries again") {
			continue // it had all before the server was killed, which took longer than it should
		}
		if said := s.stop(); !strings.Contains(said, `range="bytes=`) || strings.Contains(said, fmt.Sprintf(" bytes=%d ", restartedSize)) {
			t.Error("it did not go on")
		}
		return
	}
	t.Fatal("the server was never killed in time")
}

// And so does a put, without --continue, from what the server has kept. Nothing is left
// behind.
func TestHTTPServerRestartedPut(t *testing.T) {
	t.Parallel() // it waits most of the time
	content := killedContent(t)[:restartedSize]
	dir, file := servedDir(t, nil), filepath.Join(t.TempDir(), "big")
	writeFile(t, file, string(content))
	s := startHTTP(t, dir, "--upload", "create")
	c := runChild(t, childOptions{}, "put", "--limit", restartedRate, file, s.at+"/big")
	awaitHidden(t, dir, ".mark", func(b []byte) bool { return len(b) > 0 })
	s = s.killAndRestart(time.Second, dir, "--upload", "create")
	c.wantExit(0)
	if got, err := os.ReadFile(filepath.Join(dir, "big")); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d other bytes have come, %v", len(got), err)
	}
	said := s.stop()
	if !strings.Contains(said, fmt.Sprintf("-%d/%d\"", restartedSize-1, restartedSize)) || strings.Contains(said, `range="bytes 0-`) {
		t.Error("it did not go on from what was kept")
	}
	wantNames(t, dir, "big")
}

// Who asks for another source has the server forget what it has kept, as a put does
// that is given up.
func TestServeHTTPForgetsUpload(t *testing.T) {
	dir := servedDir(t, nil)
	s := startHTTP(t, dir, "--upload", "create")
	s.want(202, "*", "PUT /letter", "dear", "Content-Range: bytes 0-3/8", "Upload-Source: one")
	if kept, _ := filepath.Glob(filepath.Join(dir, ".haul*")); len(kept) == 0 {
		t.Error("nothing is kept")
	}
	resp, _ := s.ask("PUT /letter", "", "Content-Range: bytes */8", "Upload-Source: other")
	if n := resp.Header.Get("Upload-Offset"); resp.StatusCode != 202 || n != "0" {
		t.Errorf("%d, and %q bytes are there", resp.StatusCode, n)
	}
	wantNames(t, dir)
}
