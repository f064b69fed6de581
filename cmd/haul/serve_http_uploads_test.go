//go:build unix

package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A server that is killed in the middle of an upload leaves the received data and no more. The next
// server frees the part that is not safe, and the upload resumes.
func TestServeHTTPKilledUpload(t *testing.T) {
	const size, come = 256 << 20, 24 << 20
	dir := servedDir(t, nil)
	s := startHTTP(t, dir, "--upload", "create")
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.at, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT /image HTTP/1.1\r\nHost: localhost\r\nContent-Range: bytes 0-%d/%d\r\nContent-Length: %d\r\n\r\n", size-1, size, size)
	if _, err := conn.Write(bytes.Repeat([]byte("x"), come)); err != nil {
		t.Fatal(err)
	}
	awaitHidden(t, dir, ".mark", func(b []byte) bool { return len(b) > 0 })
	s.signal(syscall.SIGKILL)
	s.wantExit(-1)
	kept, _ := filepath.Glob(filepath.Join(dir, ".haul*.keep"))
	if len(kept) != 1 {
		t.Fatalf("%q is kept", kept)
	}
	taken := func() int64 {
		fi, err := os.Stat(kept[0])
		if err != nil {
			t.Fatal(err)
		}
		return fi.Sys().(*syscall.Stat_t).Blocks * 512
	}
	const slack = 1 << 20 // used by the file system itself
	if got := taken(); got > come+slack {
		t.Errorf("%d bytes take %d of the disk", come, got)
	}
	s = startHTTP(t, dir, "--upload", "create")
	for late := time.Now().Add(patience); taken() > 16<<20+slack; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("what is kept takes %d bytes of the disk", taken())
		}
	}
	resp, _ := s.ask("PUT /image", "", fmt.Sprintf("Content-Range: bytes */%d", size))
	n, err := strconv.Atoi(resp.Header.Get("Upload-Offset"))
	if resp.StatusCode != 202 || err != nil || n < 16<<20 || n > come {
		t.Errorf("%d, and of %d bytes that had come %d are there, %v", resp.StatusCode, come, n, err)
	}
}

// Requests in progress end soon after their user is disabled; those of other users do not.
func TestServeHTTPUserDisabled(t *testing.T) {
	t.Parallel() // it waits most of the time
	dir := servedDir(t, map[string]string{"large": strings.Repeat("0123456789abcdef", 4<<20)})
	entry := func(name string) string { return "user " + name + "\n" + hashed(t, "builder") }
	alice, bob := entry("alice"), entry("bob")
	file := usersFile(t, alice+bob)
	s := startHTTP(t, dir, "--http-plain-auth", "--http-auth", file)
	begin := func(name, request string) net.Conn {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.at, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(patience))
		login := base64.StdEncoding.EncodeToString([]byte(name + ":builder"))
		if _, err := fmt.Fprintf(c, "%s\r\nHost: localhost\r\nAuthorization: Basic %s\r\n\r\n", request, login); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "half"); err != nil {
			t.Fatal(err)
		}
		return c
	}
	const upload = " HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 8"
	get := begin("alice", "GET /large HTTP/1.1")
	put, other := begin("alice", "PUT /half"+upload), begin("bob", "PUT /whole"+upload)
	writeUsers(t, file, alice+"  disabled\n"+bob)
	s.await("the changed file is in force")
	s.await("file=/half", `error="the login has ended: the user is disabled"`)
	s.await("file=/large", `error="the login has ended: the user is disabled"`)
	for _, c := range []net.Conn{get, put} {
		if n, err := io.Copy(io.Discard, c); n >= 64<<20 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the connection has %d bytes more, %v", n, err)
		}
	}
	if _, err := io.WriteString(other, "half"); err != nil {
		t.Fatal(err)
	}
	s.await("file=/whole", "status=201")
	s.want(401, "*", "GET /large", "", "user: alice:builder")
	s.stop()
	wantNames(t, dir, "large", "whole")
}
