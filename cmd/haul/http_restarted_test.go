//go:build unix

package main

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// restartedSize is the size of a copy during which the server is killed.
const restartedSize = 64 << 20

// A relay forwards connections to a server. After a number of bytes it holds back the rest until it
// is opened, so that a test can act in the middle of a copy, however busy the machine is.
type relay struct {
	addr string
	left atomic.Int64
	full chan struct{} // closed when bytes are held back
	once sync.Once     // closes full only once
	all  chan struct{} // closed to forward everything
}

func startRelay(t *testing.T, to string, most int64) *relay {
	t.Helper()
	r := &relay{full: make(chan struct{}), all: make(chan struct{})}
	r.left.Store(most)
	r.addr = listen(t, func(client net.Conn) {
		defer client.Close()
		server, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer server.Close()
		go func() {
			r.forward(server, client)
			server.Close() // ends the other direction too
		}()
		r.forward(client, server)
	})
	return r
}

func (r *relay) forward(to io.Writer, from io.Reader) {
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if r.left.Add(-int64(n)) < 0 {
			r.once.Do(func() { close(r.full) })
			<-r.all
		}
		if _, e := to.Write(buf[:n]); err != nil || e != nil {
			return
		}
	}
}

func (r *relay) open() { close(r.all) }

// hostPort returns the address of a plain HTTP server.
func (s *httpChild) hostPort() string { return strings.TrimPrefix(s.at, "http://") }

// killAndRestart kills an HTTP server, and restarts it at the same address.
func (s *httpChild) killAndRestart(args ...string) *httpChild {
	s.t.Helper()
	s.signal(syscall.SIGKILL)
	s.wantExit(-1)
	again := &httpChild{child: runChild(s.t, childOptions{}, append([]string{"serve", "--http", s.hostPort()}, args...)...)}
	again.awaitHTTP("http")
	return again
}

// awaitStrong waits until a server sends a strong ETag for a file. It sends a weak one, or no ETag,
// for a file that has just changed.
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

// A server is killed in the middle of a get. When it is back, the get resumes.
func TestHTTPServerRestartedGet(t *testing.T) {
	t.Parallel() // it waits most of the time
	content := killedContent(restartedSize)
	dir := servedDir(t, map[string]string{"big": string(content)})
	here, s := t.TempDir(), startHTTP(t, dir)
	s.awaitStrong("/big")
	between := startRelay(t, s.hostPort(), restartedSize/4)
	c := runChild(t, childOptions{}, "get", "http://"+between.addr+"/big", here)
	select {
	case <-between.full:
	case <-time.After(patience):
		t.Fatal("the get did not begin")
	}
	s = s.killAndRestart(dir)
	between.open()
	c.wantExit(0)
	wantFile(t, filepath.Join(here, "big"), string(content))
	said := s.stop()
	if strings.Contains(said, fmt.Sprintf(" bytes=%d ", restartedSize)) {
		t.Error("the second server sent the whole file")
	}
	if !strings.Contains(said, `range="bytes=`) {
		t.Error("the second server sent nothing")
	}
}

// If a server is killed in the middle of a put, the put resumes without --continue, from the part
// that the server has kept. Nothing is left behind.
func TestHTTPServerRestartedPut(t *testing.T) {
	t.Parallel() // it waits most of the time
	content := killedContent(restartedSize)
	file, dir := filepath.Join(t.TempDir(), "big"), servedDir(t, nil)
	writeFile(t, file, string(content))
	s := startHTTP(t, dir, "--upload", "create")
	between := startRelay(t, s.hostPort(), restartedSize/2)
	c := runChild(t, childOptions{}, "put", file, "http://"+between.addr+"/big")
	awaitHidden(t, dir, ".mark", func(b []byte) bool { return len(b) > 0 })
	s = s.killAndRestart(dir, "--upload", "create")
	between.open()
	c.wantExit(0)
	wantFile(t, filepath.Join(dir, "big"), string(content))
	wantNames(t, dir, "big")
	said := s.stop()
	if strings.Contains(said, `range="bytes 0-`) {
		t.Error("the second server took the file from its beginning")
	}
	if !strings.Contains(said, fmt.Sprintf("-%d/%d\"", restartedSize-1, restartedSize)) {
		t.Error("the second server did not take the end of the file")
	}
}

// A request with another Upload-Source makes the server discard the part of an upload that it has
// kept. A put that gives up sends such a request.
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
