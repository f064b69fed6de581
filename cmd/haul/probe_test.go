package main

import (
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// probe prints the size of a file over each protocol, and errors with advice.
func TestHTTPProbe(t *testing.T) {
	l := startWeb(t, map[string]string{"a": "aaa", "b c": "bb", "empty": "", "dir/f": "f"})
	l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Method == http.MethodGet && r.URL.Path == "/b c" && r.Header.Get("Range") != "":
			return false // answer only this request
		case r.URL.Path == "/b c":
			w.WriteHeader(http.StatusMethodNotAllowed)
		case r.URL.Path == "/forbidden":
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/login":
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/endless":
			w.(http.Flusher).Flush() // without a Content-Length
		default:
			if r.Method != http.MethodHead {
				t.Errorf("%s %s", r.Method, r.URL)
			}
			return false
		}
		return true
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	for _, c := range []struct {
		args string
		code int
		out  string
		says string
	}{
		{"AT/a", 0, "3\n", ""},
		{"AT/b%20c", 0, "2\n", ""},
		{"-q AT/empty", 0, "0\n", ""},
		{"AT/a?token=x", 0, "3\n", ""},
		{"AT/a AT/dir/f", 0, "3 AT/a\n1 AT/dir/f\n", ""},
		{"AT/missing AT/a", exitNotFound, "3 AT/a\n", "404"},
		{"AT/missing", exitNotFound, "", "404"},
		{"AT/forbidden", exitRefused, "", "403"},
		{"--batch AT/login", exitRefused, "", "--batch"},
		{"AT/dir", exitRefused, "", "directory"},
		{"AT/endless", exitFailed, "", "does not report the size"},
		{"http://" + listener.Addr().String() + "/a", exitNoAnswer, "", "nothing listens at"},
		{"AT/", exitUsage, "", "names no file"},
		{"AT/dir/", exitUsage, "", "names no file"},
		{"--blksize 512 AT/a", exitUsage, "", "a flag of TFTP"},
		{"-i key AT/a", exitUsage, "", "a flag of SFTP"},
		{"AT/a tftp://127.0.0.1/a", exitUsage, "", "the same protocol"},
		{"tftp://127.0.0.1/a AT/a", exitUsage, "", "the same protocol"},
		{"--cacert none AT/a", exitLocal, "", "none"},
		{"--cacert none tftp://127.0.0.1/a", exitUsage, "", "a flag of HTTP"},
		{"ftp://127.0.0.1/a", exitUsage, "", "does not speak ftp"},
		{"a", exitUsage, "", "local file"},
	} {
		code, out, msg := haul(t, append([]string{"probe"}, strings.Fields(strings.ReplaceAll(c.args, "AT", l.URL))...)...)
		if code != c.code || out != strings.ReplaceAll(c.out, "AT", l.URL) || !strings.Contains(msg, c.says) {
			t.Errorf("haul probe %s: exit code %d, want %d with %q: %q, %s", c.args, code, c.code, c.says, out, msg)
		}
	}
}

// Passwords and certificates are passed as with get.
func TestHTTPProbeSecure(t *testing.T) {
	l := startSecureWeb(t, map[string]string{"a": "aaa"})
	l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, _ := r.BasicAuth(); user == "me" && password == "secret" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	at := strings.Replace(l.URL, "https://", "https://me@", 1) + "/a"
	secret := filepath.Join(l.home, "password")
	writeFile(t, secret, "secret\n")
	if code, _, msg := haul(t, "probe", "--password-file", secret, at); code != exitRefused || !strings.Contains(msg, "certificate") {
		t.Errorf("without --cacert: exit code %d, %s", code, msg)
	}
	if code, out, msg := haul(t, "probe", "--cacert", l.cacert(), "--password-file", secret, at); code != 0 || out != "3\n" {
		t.Errorf("exit code %d, %q, %s", code, out, msg)
	}
}
