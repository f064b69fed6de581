package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
)

func TestHTTPGet(t *testing.T) {
	files := treeFiles()
	l := startWeb(t, files)
	for _, c := range []struct {
		args string // HERE is a new directory, AT the server
		want map[string]string
	}{
		{"AT/top HERE", map[string]string{"top": "top"}},
		{"AT/top HERE/new", map[string]string{"new": "top"}},
		{"AT/empty HERE/new", map[string]string{"new": ""}},
		{"AT/top HERE/made/", map[string]string{"made/top": "top"}},
		{"AT/a%20b%2520 HERE", map[string]string{"a b%20": "spaces"}},
		{"AT/top?token=x HERE", map[string]string{"top": "top"}},
		{"AT/top AT/sub/x.log HERE", map[string]string{"top": "top", "x.log": "x"}},
		{"AT/sub/*.log HERE", map[string]string{"x.log": "x", "y.log": "y"}},
		{"-r AT/sub HERE", prefixed("sub", filesIn(files, "sub"))},
		{"-r AT/sub/. HERE", filesIn(files, "sub")},
		{"-r AT/sub HERE/other", prefixed("other", filesIn(files, "sub"))},
		{"-r AT HERE", files},
		{"-r AT/ HERE", files},
		{"-r --parallel 64 AT/many/. HERE", filesIn(files, "many")},
		{"-r --verify --sparse --fsync -p AT/sub HERE", prefixed("sub", filesIn(files, "sub"))},
		{"-r --continue -p AT/sub HERE", prefixed("sub", filesIn(files, "sub"))},
		{"--limit 100M AT/sub/big HERE", map[string]string{"big": files["sub/big"]}},
		{"--dry-run -r AT/sub HERE", nil},
	} {
		here := t.TempDir()
		args := strings.ReplaceAll(strings.ReplaceAll(c.args, "HERE", filepath.ToSlash(here)), "AT", l.URL)
		code, out, msg := haul(t, append([]string{"get", "--batch"}, strings.Fields(args)...)...)
		if code != 0 {
			t.Errorf("haul get %s: exit code %d, %s", c.args, code, msg)
		}
		wantTree(t, here, c.want)
		if strings.Contains(c.args, "dry-run") && !strings.Contains(out, "sub/deep/er/z.log") {
			t.Errorf("--dry-run prints\n%s\n%s", out, msg)
		}
	}
}

// A file can be written to standard output, or read from standard input.
func TestHTTPStreams(t *testing.T) {
	files := treeFiles()
	l := startWeb(t, files)
	if out := l.must("get", l.URL+"/sub/big", "-"); out != files["sub/big"] {
		t.Errorf("%d other bytes have come", len(out))
	}
	if code, _, msg := haul(t, "get", l.URL+"/missing", "-"); code != exitNotFound {
		t.Errorf("exit code %d, %s", code, msg)
	}
	if code, _, msg := haul(t, "get", "-r", l.URL+"/sub", "-"); code != exitUsage {
		t.Errorf("exit code %d, %s", code, msg)
	}
}

func TestHTTPPut(t *testing.T) {
	l := startWeb(t, map[string]string{"dir/there": "old"})
	here := t.TempDir()
	big := strings.Repeat("0123456789abcdef", 200_000)
	for name, content := range map[string]string{"a": "aaa", "b c": "bb", "big": big, "empty": ""} {
		writeFile(t, filepath.Join(here, name), content)
	}
	for _, c := range []struct {
		args string
		want map[string]string
	}{
		{"a AT/new", map[string]string{"new": "aaa"}},
		{"a AT/dir", map[string]string{"dir/a": "aaa"}},
		{"a AT/dir/", map[string]string{"dir/a": "aaa"}},
		{"a empty AT/dir", map[string]string{"dir/a": "aaa", "dir/empty": ""}},
		{"--verify big AT/dir/there", map[string]string{"dir/there": big}},
		{"--unchanged=hash big AT/dir/there", map[string]string{"dir/there": big}},
		{"--continue big AT/kept", map[string]string{"kept": big}},
	} {
		var args []string
		for word := range strings.FieldsSeq(strings.ReplaceAll(c.args, "AT", l.URL)) {
			if _, err := os.Stat(filepath.Join(here, word)); err == nil {
				word = filepath.Join(here, word)
			}
			args = append(args, word)
		}
		code, _, msg := haul(t, append([]string{"put"}, args...)...)
		if code != 0 {
			t.Errorf("haul put %s: exit code %d, %s", c.args, code, msg)
		}
		for name, content := range c.want {
			wantFile(t, filepath.Join(l.dir, name), content)
		}
	}
	for args, says := range map[string]string{
		"-p a AT/x": "cannot set permissions", "--in-place a AT/x": "a part of a file", "--sparse a AT/x": "every byte", "--fsync a AT/x": "no way to ask",
		"--unchanged a AT/x": "--unchanged=hash compares", "--links keep a AT/x": "no symbolic links", "-i key a AT/x": "a flag of SFTP", "--blksize 512 a AT/x": "a flag of TFTP", "- AT/x/": "no name",
	} {
		words := strings.Fields(strings.ReplaceAll(args, "AT", l.URL))
		words[len(words)-2] = strings.Replace(words[len(words)-2], "a", filepath.Join(here, "a"), 1)
		if code, _, msg := haul(t, append([]string{"put"}, words...)...); code != exitUsage || !strings.Contains(msg, says) {
			t.Errorf("haul put %s: exit code %d, %s", args, code, msg)
		}
	}
	// This copies into a missing directory, on a server that creates none.
	for _, args := range [][]string{{filepath.Join(here, "a"), l.URL + "/none/"}, {"-r", here, l.URL + "/none"}, {"-r", "--continue", here, l.URL + "/none/"}} {
		code, _, msg := haul(t, append([]string{"put"}, args...)...)
		if code != exitRefused || !strings.Contains(msg, "no such directory") || !strings.Contains(msg, "is missing, and the server makes none for a file: make it there first") {
			t.Errorf("haul put %q: exit code %d, %s", args, code, msg)
		}
	}
}

// An uploaded file has the time of its upload. New content of the same size is sent even if the
// server's file seems to be equally old.
func TestHTTPPutSameTime(t *testing.T) {
	l := startWeb(t, nil)
	file := filepath.Join(t.TempDir(), "st")
	at := time.Unix(1_700_000_000, 0)
	for _, content := range []string{"1", "2", "3"} {
		writeFile(t, file, content)
		for _, name := range []string{file, filepath.Join(l.dir, "st")} {
			if err := os.Chtimes(name, at, at); err != nil && name == file {
				t.Fatal(err)
			}
		}
		l.must("put", "--continue", file, l.URL+"/st")
		wantFile(t, filepath.Join(l.dir, "st"), content)
	}
	// A server that can hash recognizes an identical file.
	l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut {
			t.Error("what is there is sent again")
		}
		return false
	})
	l.must("put", "--continue", file, l.URL+"/st")
	l.must("put", "--continue", "--unchanged=hash", file, l.URL+"/st")
}

// A server that does not report what it has, such as one with signed URLs, accepts files.
func TestHTTPPutBlind(t *testing.T) {
	l := startWeb(t, nil)
	l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || r.URL.RawQuery != "signature=s%2Bx" {
			w.WriteHeader(http.StatusForbidden)
			return true
		}
		return false
	})
	file := filepath.Join(t.TempDir(), "a")
	writeFile(t, file, "aaa")
	l.must("put", file, l.URL+"/b?signature=s%2Bx")
	wantFile(t, filepath.Join(l.dir, "b"), "aaa")
}

// A get that is cut off keeps the received data, and the next get resumes there.
func TestHTTPContinue(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits until haul gives a server up, for 20 s")
	}
	t.Parallel() // it waits most of the time
	big := strings.Repeat("0123456789abcdef", 4<<20/16)
	l := startWeb(t, map[string]string{"big": big})
	here := t.TempDir()
	l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Range") != "" {
			panic(http.ErrAbortHandler)
		}
		if r.Method == http.MethodGet {
			l.serve(&stoppingWriter{ResponseWriter: w, left: 3 << 20}, r, filepath.Join(l.dir, "big"), time.Unix(1, 0))
		}
		return r.Method == http.MethodGet
	})
	code, _, msg := haul(t, "get", "--continue", l.URL+"/big", here)
	if code != exitNoAnswer || !strings.Contains(msg, "the same command resumes there") {
		t.Errorf("exit code %d, %s", code, msg)
	}
	if _, err := os.Stat(filepath.Join(here, "big")); err == nil {
		t.Error("half a file has its name")
	}
	l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet {
			l.serve(w, r, filepath.Join(l.dir, "big"), time.Unix(1, 0))
		}
		return r.Method == http.MethodGet
	})
	code, _, msg = haul(t, "get", "--continue", "-p", l.URL+"/big", here)
	if code != 0 || !strings.Contains(msg, "were there before") {
		t.Errorf("the next run: exit code %d, %s", code, msg)
	}
	wantFile(t, filepath.Join(here, "big"), big)
}

// A stoppingWriter cuts the connection after a number of bytes.
type stoppingWriter struct {
	http.ResponseWriter
	left int
}

func (c *stoppingWriter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p[:min(len(p), c.left)])
	if c.left -= n; c.left == 0 {
		_ = http.NewResponseController(c.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}

func TestHTTPSides(t *testing.T) {
	l := startWeb(t, map[string]string{"a": "aaa", "dir/b": "b"})
	l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasPrefix(r.URL.Path, "/forbidden"):
			w.WriteHeader(http.StatusForbidden)
		case strings.HasPrefix(r.URL.Path, "/encoded"):
			w.Header().Set("Content-Encoding", "br")
		case strings.HasPrefix(r.URL.Path, "/login"):
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		default:
			return false
		}
		return true
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	here := t.TempDir()
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"get AT/missing HERE", exitNotFound, "404"},
		{"get AT/forbidden HERE", exitRefused, "403"},
		{"get AT/encoded HERE", exitFailed, "br"},
		{"get --batch AT/login HERE", exitRefused, "--batch"},
		{"get AT/dir HERE", exitFailed, "(use -r)"},
		{"get AT/ HERE", exitUsage, "names no file"},
		{"get AT/a HERE/none/x", exitLocal, "none"},
		{"get http://" + listener.Addr().String() + "/a HERE", exitNoAnswer, "nothing listens at " + listener.Addr().String()},
		{"get http://me:secret@127.0.0.1/a HERE", exitUsage, "password"},
		{"get --password-file HERE/none AT/a HERE", exitUsage, "USER@HOST"},
		{"get --cacert HERE/none AT/a HERE", exitLocal, "none"},
		{"get --cacert HERE/x --insecure AT/a HERE", exitUsage, "--insecure"},
		{"get --fingerprint " + strings.Repeat("0", 64) + " AT/a HERE", exitUsage, "no certificate over http"},
		{"get -i key AT/a HERE", exitUsage, "a flag of SFTP"},
		{"get AT/a host:b HERE", exitUsage, "of the same protocol"},
		{"mv AT/a AT/b", exitUsage, "HTTP has no way to rename"},
		{"mkdir AT/a", exitUsage, "HTTP has no way to make a directory"},
		{"df AT/a", exitUsage, "HTTP has no way"},
		{"ls AT/a host:b", exitUsage, "of the same protocol"},
		{"rm -r AT/dir", exitUsage, "single files only"},
		{"rm AT/dir/", exitUsage, "files only"},
		{"rm AT/missing", exitNotFound, "404"},
		{"rm -f AT/missing", 0, ""},
		{"stat AT/missing", exitNotFound, "404"},
		{"ls AT/forbidden", exitRefused, "403"},
	} {
		words := strings.Fields(strings.ReplaceAll(strings.ReplaceAll(c.args, "AT", l.URL), "HERE", filepath.ToSlash(here)))
		code, _, msg := haul(t, words...)
		if code != c.code || !strings.Contains(msg, c.says) {
			t.Errorf("haul %s: exit code %d, want %d with %q: %s", c.args, code, c.code, c.says, msg)
		}
		if strings.Contains(msg, "secret") {
			t.Errorf("haul %s shows the password: %s", c.args, msg)
		}
	}
	if left, _ := os.ReadDir(here); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestHTTPFiles(t *testing.T) {
	l := startWeb(t, map[string]string{"a.log": "aaa", "b.log": "bb", ".dot": "", "dir/c": "c"})
	if out := l.must("ls", l.URL+"/"); out != "a.log\nb.log\ndir\n" {
		t.Errorf("ls: %q", out)
	}
	if out := l.must("ls", "-a", l.URL); !strings.Contains(out, ".dot\n") {
		t.Errorf("ls -a: %q", out)
	}
	if out := l.must("ls", "-R", l.URL+"/"); !strings.Contains(out, "dir:\nc\n") {
		t.Errorf("ls -R: %q", out)
	}
	if out := l.must("ls", "-l", l.URL+"/a.log"); !strings.HasPrefix(out, "- 3 ") || strings.Contains(out, "?") {
		t.Errorf("ls -l: %q", out)
	}
	if out := l.must("ls", l.URL+"/*.log"); out != "a.log\nb.log\n" {
		t.Errorf("ls of a pattern: %q", out)
	}
	if out := l.must("ls", "--json", l.URL+"/b.log"); !strings.Contains(out, `"size":2`) || strings.Contains(out, "mode") {
		t.Errorf("ls --json: %q", out)
	}
	if out := l.must("stat", l.URL+"/a.log"); !strings.Contains(out, "3 bytes") || strings.Contains(out, "Mode") {
		t.Errorf("stat: %q", out)
	}
	if out := l.must("stat", l.URL+"/dir"); strings.Contains(out, "Size") {
		t.Errorf("stat of a directory: %q", out)
	}
	if out := l.must("stat", "--json", l.URL+"/dir"); !strings.Contains(out, `"type":"dir"`) || strings.Contains(out, "size") {
		t.Errorf("stat --json: %q", out)
	}
	l.must("rm", l.URL+"/*.log")
	if out := l.must("ls", l.URL+"/"); out != "dir\n" {
		t.Errorf("after rm: %q", out)
	}
}

// The server's certificate must be trusted by the system or by --cacert. HTTP/2 works like
// HTTP/1.1.
func TestHTTPSecure(t *testing.T) {
	l := startSecureWeb(t, map[string]string{"a": "aaa"})
	here := t.TempDir()
	code, _, msg := haul(t, "get", l.URL+"/a", here)
	if code != exitRefused || !strings.Contains(msg, "certificate") {
		t.Errorf("without --cacert: exit code %d, %s", code, msg)
	}
	l.must("get", "--cacert", l.cacert(), l.URL+"/a", here)
	wantFile(t, filepath.Join(here, "a"), "aaa")
	for _, r := range l.asked() {
		if r.ProtoMajor != 2 {
			t.Errorf("%s %v by %s", r.Method, r.URL, r.Proto)
		}
	}
	code, _, msg = haul(t, "get", "-q", "--insecure", l.URL+"/a", filepath.Join(here, "b"))
	if code != 0 || !strings.Contains(msg, "WARNING") {
		t.Errorf("--insecure: exit code %d, %s", code, msg)
	}
}

// A password comes from netrc or from a file, and goes to no other server.
func TestHTTPPassword(t *testing.T) {
	l := startWeb(t, map[string]string{"a": "aaa"})
	l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, ok := r.BasicAuth(); ok && user == "me" && password == "pass word" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	here := t.TempDir()
	at := strings.Replace(l.URL, "http://", "http://me@", 1) + "/a"
	code, _, msg := haul(t, "get", "--batch", at, here)
	if code != exitRefused {
		t.Errorf("without a password: exit code %d, %s", code, msg)
	}
	secret := filepath.Join(l.home, "password")
	writeFile(t, secret, "another\n")
	for _, command := range []string{"get", "ls"} {
		cmd := newRoot()
		cmd.SetArgs([]string{command, "--password-file", secret, at})
		cmd.SetErr(io.Discard)
		err := cmd.ExecuteContext(t.Context())
		if text := remote.Advice(err); exitCode(err) != exitRefused || !strings.Contains(text, "the password is wrong") {
			t.Errorf("%s with a wrong password: %v, %q", command, err, text)
		}
	}
	writeFile(t, secret, "pass word\nmore\n")
	code, _, msg = haul(t, "get", "--password-file", secret, at, here)
	if code != 0 || !strings.Contains(msg, "warning: the password goes") || strings.Contains(msg, "pass word") {
		t.Errorf("--password-file: exit code %d, %s", code, msg)
	}
	wantFile(t, filepath.Join(here, "a"), "aaa")
	t.Setenv("NETRC", filepath.Join(l.home, "netrc"))
	writeFile(t, filepath.Join(l.home, "netrc"), `machine 127.0.0.1 login me password "pass word"`)
	code, _, msg = haul(t, "get", "--batch", l.URL+"/a", filepath.Join(here, "b"))
	if code != 0 {
		t.Errorf("netrc: exit code %d, %s", code, msg)
	}
	writeFile(t, filepath.Join(l.home, "netrc"), `machine 127.0.0.1 login me password`)
	code, _, msg = haul(t, "get", "--batch", l.URL+"/a", filepath.Join(here, "c"))
	if code != exitRefused || !strings.Contains(msg, "netrc: line 1") {
		t.Errorf("a broken netrc: exit code %d, %s", code, msg)
	}
}

// --continue reports when it cannot resume a file, and why.
func TestHTTPNotResumed(t *testing.T) {
	content := strings.Repeat("0123456789abcdef", 2<<20/16)
	l := startWeb(t, nil)
	l.setHook(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("ETag", `W/"1"`)
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
		return true
	})
	to := filepath.Join(t.TempDir(), "f")
	code, _, msg := haul(t, "get", "--continue", l.URL+"/f", to)
	if want := "note: " + l.URL + "/f is copied from its start: the server does not say which version"; code != 0 || !strings.Contains(msg, want) {
		t.Errorf("exit code %d, no %q in %s", code, want, msg)
	}
	wantFile(t, to, content)
	if _, _, msg := haul(t, "get", l.URL+"/f", to); strings.Contains(msg, "note") {
		t.Errorf("without --continue: %s", msg)
	}
	if _, _, msg := haul(t, "put", "--continue", to, l.URL+"/up"); !strings.Contains(msg, to+" is copied from its start: the target keeps no parts of files") {
		t.Errorf("put: %s", msg)
	}
}
