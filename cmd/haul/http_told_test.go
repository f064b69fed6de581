package main

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
)

// If a server asks haul to wait, it waits, and prints the reason once, but not with -q.
func TestHTTPWaits(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, quiet := range []bool{false, true} {
		l := startWeb(t, map[string]string{"a": "aaa"})
		var asked atomic.Int32
		l.setHook(func(w http.ResponseWriter, _ *http.Request) bool {
			if asked.Add(1) > 2 {
				return false
			}
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		})
		here, args := t.TempDir(), []string{"get", l.URL + "/a"}
		if quiet {
			args = append(args, "-q")
		}
		code, _, msg := haul(t, append(args, here)...)
		want := 1
		if quiet {
			want = 0
		}
		if code != 0 || strings.Count(msg, "answers 429 Too Many Requests; haul waits") != want {
			t.Errorf("quiet %v: exit code %d, %s", quiet, code, msg)
		}
		wantFile(t, filepath.Join(here, "a"), "aaa")
	}
}

// If a server sends more than it announced, package http would print lines of its own through
// package log. They are not shown.
func TestHTTPMoreThanSaid(t *testing.T) {
	var said bytes.Buffer // package log has a lock
	before := log.Writer()
	log.SetOutput(&said)
	t.Cleanup(func() { log.SetOutput(before) })
	l := startWeb(t, map[string]string{"a": "aaa", "b": "bbb"})
	closed := make(chan struct{})
	l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Method == http.MethodGet && r.URL.Path == "/b":
			<-closed // the client has noticed the additional data, and package http has logged it
			return false
		case r.Method != http.MethodGet || r.URL.Path != "/a":
			return false
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			close(closed)
			return true
		}
		go func() {
			defer close(closed)
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(time.Minute)) // so that reading cannot block forever
			fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\naaa and more")
			_, _ = io.Copy(io.Discard, conn)
		}()
		return true
	})
	here := t.TempDir()
	code, _, msg := haul(t, "get", l.URL+"/a", l.URL+"/b", here)
	wantTree(t, here, map[string]string{"a": "aaa", "b": "bbb"})
	if code != 0 || said.Len() > 0 || strings.Contains(msg, "Unsolicited") {
		t.Errorf("exit code %d, %s, and by package log %q", code, msg, said.String())
	}
}

// messageOf returns the output of a failed command.
func messageOf(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := newRoot()
	cmd.SetArgs(args)
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	err := cmd.ExecuteContext(t.Context())
	if err == nil {
		t.Fatalf("%v: no error", args)
	}
	printFailure(&out, newRoot(), err)
	return out.String()
}

// Every command prints one note with advice about a server that is not trusted or speaks another
// protocol.
func TestHTTPAdvice(t *testing.T) {
	secure, plain := startSecureWeb(t, map[string]string{"a": "aaa", "b": "bbb"}), startWeb(t, nil)
	const trust, scheme = "haul: note: --cacert FILE", "haul: note: that port speaks HTTP without TLS: its URL begins with http://\n"
	const ssh = "haul: note: that port speaks SSH: its URL begins with sftp://\n"
	lab, file := startLab(t, nil), filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "text")
	for _, c := range []struct{ args, want string }{
		{"get " + secure.URL + "/a -", trust},
		{"get -q " + secure.URL + "/a " + secure.URL + "/b " + t.TempDir(), trust},
		{"probe " + secure.URL + "/a", trust},
		{"get https" + strings.TrimPrefix(plain.URL, "http") + "/a -", scheme},
		{"ls --batch sftp" + strings.TrimPrefix(plain.URL, "http") + "/", scheme},
		{"get http://" + lab.addr + "/a -", ssh},
		{"put -q " + file + " http://" + lab.addr + "/a", ssh},
		{"ls https://" + lab.addr + "/", ssh},
	} {
		if got := messageOf(t, strings.Fields(c.args)...); strings.Count(got, "haul: note: ") != 1 || !strings.Contains(got, c.want) {
			t.Errorf("%s: it says %q; want %q, once", c.args, got, c.want)
		}
	}
	if got := messageOf(t, "get", plain.URL+"/none", "-"); strings.Contains(got, "note") {
		t.Errorf("a file that is missing: it says %q", got)
	}
	if got := remote.Advice(fmt.Errorf("get: %w", x509.HostnameError{Certificate: new(x509.Certificate), Host: "h.example"})); !strings.Contains(got, "h.example") {
		t.Errorf("another name: it says %q", got)
	}
	if got := remote.Advice(fmt.Errorf("get: %w", &net.DNSError{Name: "h.example", IsNotFound: true})); !strings.Contains(got, "no host has the name h.example") {
		t.Errorf("a name that is not there: it says %q", got)
	}
	if got := messageOf(t, "get", "https://me:secret@h.example/a", "-"); !strings.Contains(got, "--password-file") || strings.Contains(got, "secret@") {
		t.Errorf("a password in the URL: it says %q", got)
	}
}
