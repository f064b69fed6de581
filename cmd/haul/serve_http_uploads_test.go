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

// What is served says nothing of the directory that uploads go to: a file that is
// served with the same size and time is sent all the same.
func TestServeHTTPUploadDirContinue(t *testing.T) {
	dir, uploads := servedDir(t, map[string]string{"st": "1"}), servedDir(t, nil)
	file := filepath.Join(t.TempDir(), "st")
	writeFile(t, file, "2")
	at := time.Unix(1_700_000_000, 0)
	for _, name := range []string{file, filepath.Join(dir, "st")} {
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	s := startHTTP(t, dir, "--upload", "overwrite", "--upload-dir", uploads)
	if code, _, msg := haul(t, "put", "--continue", file, s.at+"/st"); code != 0 {
		t.Errorf("exit code %d, %s", code, msg)
	}
	wantFile(t, filepath.Join(uploads, "st"), "2")
	wantFile(t, filepath.Join(dir, "st"), "1")
}

// Where uploads go elsewhere, it is there that a name may be taken, over HTTP as
// over TFTP.
func TestServeHTTPUploadDirCreate(t *testing.T) {
	dir, uploads := servedDir(t, map[string]string{"served": "old", "sub/f": "x"}), servedDir(t, nil)
	s := startHTTP(t, dir, "--tftp", "127.0.0.1:0", "--upload", "create", "--upload-dir", uploads)
	s.awaitURL()
	s.want(201, "created\n", "PUT /served", "by HTTP")
	s.want(201, "created\n", "PUT /sub", "a file")
	s.want(409, "*", "PUT /served", "again")
	s.want(409, "*", "PUT /served", "aga", "Content-Range: bytes 0-2/10")
	s.wantPut("served", "again", exitRefused)
	s.wantPut("other", "by TFTP", 0)
	s.want(409, "*", "PUT /other", "again")
	s.want(412, "*", "PUT /served", "again", "If-None-Match: *")
	s.want(200, "old", "GET /served", "")
	for name, want := range map[string]string{"served": "by HTTP", "sub": "a file", "other": "by TFTP"} {
		wantFile(t, filepath.Join(uploads, name), want)
	}
}

// A tree goes to directories that are missing: they come with their files, for
// all who may bring some, and nothing is left of what is refused.
func TestServeHTTPPutTree(t *testing.T) {
	t.Parallel() // it waits most of the time
	here := filepath.Join(t.TempDir(), "tree")
	files := map[string]string{"a": "aaa", "sub/b": "bb", "sub/er/big": strings.Repeat("0123456789abcdef", 200_000), "sub/empty": ""}
	for name, content := range files {
		writeFile(t, filepath.Join(here, name), content)
	}
	if err := os.MkdirAll(filepath.Join(here, "none/at/all"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir, file := servedDir(t, nil), filepath.Join(t.TempDir(), "users")
	text := ""
	for _, access := range []string{"full", "read-only", "upload-only"} {
		text += "user " + access + "\n" + hashed(t, "builder") + "  access " + access + "\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	password := filepath.Join(t.TempDir(), "password")
	writeFile(t, password, "builder\n")
	s := startHTTP(t, dir, "--http-plain-auth", "--http-auth", file)
	for access, want := range map[string]int{"full": 0, "upload-only": 0, "read-only": exitRefused} {
		for flags, to := range map[string]string{"-r": access + "/new", "-r --continue": access + "/again/deeper"} {
			at := strings.Replace(s.at, "http://", "http://"+access+"@", 1) + "/" + to
			code, _, msg := haul(t, append(append([]string{"put", "--password-file", password}, strings.Fields(flags)...), here, at)...)
			if code != want || want == 0 && !strings.Contains(msg, "3 left out (directories without files") {
				t.Errorf("put %s as %s: exit code %d, %s", flags, access, code, msg)
			}
			if want == 0 {
				wantTree(t, filepath.Join(dir, to), files)
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v are served, %v", entries, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "full/new/none")); err == nil {
		t.Error("a directory without files is made")
	}
	s.stop()
	// A server that is confined to an upload directory makes them there.
	uploads := servedDir(t, nil)
	s = startHTTP(t, dir, "--upload", "create", "--upload-dir", uploads, "--access", "deny write * /boot/**")
	if code, _, msg := haul(t, "put", "-r", here, s.at+"/new"); code != 0 {
		t.Errorf("exit code %d, %s", code, msg)
	}
	wantTree(t, filepath.Join(uploads, "new"), files)
	if code, _, msg := haul(t, "put", "-r", here, s.at+"/boot"); code != exitRefused {
		t.Errorf("exit code %d, %s", code, msg)
	}
	if _, err := os.Stat(filepath.Join(uploads, "boot")); err == nil {
		t.Error("a directory is made for what is refused")
	}
}

// Users who may only upload can send a file in parts as well.
func TestServeHTTPUploadOnlyParts(t *testing.T) {
	dir, file := servedDir(t, nil), filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(file, []byte("user bob\n"+hashed(t, "builder")+"  access upload-only\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startHTTP(t, dir, "--http-plain-auth", "--http-auth", file)
	const bob = "user: bob:builder"
	s.want(202, "*", "PUT /letter", "dear", bob, "Content-Range: bytes 0-3/8")
	s.want(403, "*", "GET /letter", "", bob)
	s.want(201, "*", "PUT /letter", " you", bob, "Content-Range: bytes 4-7/8")
	s.want(409, "*", "PUT /letter", "more", bob)
	wantFile(t, filepath.Join(dir, "letter"), "dear you")
}

// A server that is killed in the middle of an upload leaves what has come, and no
// more. The next one gives back what is not safe of it, and the upload resumes.
func TestServeHTTPKilledUpload(t *testing.T) {
	const size, come = 256 << 20, 24 << 20
	dir := servedDir(t, nil)
	s := startHTTP(t, dir, "--upload", "create")
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.at, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT /image HTTP/1.1\r\nHost: x\r\nContent-Range: bytes 0-%d/%d\r\nContent-Length: %d\r\n\r\n", size-1, size, size)
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
	const slack = 1 << 20 // of the file system, for itself
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

// Requests under way end soon after their user is disabled, and those of others do not.
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
		if _, err := fmt.Fprintf(c, "%s\r\nHost: x\r\nAuthorization: Basic %s\r\n\r\n", request, login); err != nil {
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
