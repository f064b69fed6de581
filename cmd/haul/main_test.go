package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	module "github.com/haul-project/haul"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/tftp"
)

// haul runs a command line in this process.
func haul(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs lockedBuffer
	cmd := newRoot()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	err := cmd.ExecuteContext(t.Context())
	if err != nil {
		code = exitCode(err)
		_, _ = errs.Write([]byte(err.Error())) // as main prints it
	}
	return code, out.String(), errs.String()
}

// wordAfter returns the word behind a text, in plain lines and in those of JSON.
func wordAfter(text, before string) string {
	_, text, _ = strings.Cut(text, before)
	return text[:strings.IndexAny(text+"\n", " \n\"")]
}

// startServer serves a new directory with the given files, and returns the
// directory and the URL of its root.
func startServer(t *testing.T, uploads tftp.Uploads, files map[string]string) (dir, url string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		writeFile(t, filepath.Join(dir, name), content)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() }) // once the server has ended
	return dir, serveTFTP(t, tftp.Config{Store: localdir.New(root), Upload: uploads})
}

// serveTFTP runs a server until the test ends, and returns the URL of its root.
func serveTFTP(t *testing.T, s tftp.Config) (url string) {
	t.Helper()
	return "tftp://" + servetest.TFTP(t, s).String() + "/"
}

// Of several errors the gravest counts, whatever their order.
func TestExitCodeOfSeveral(t *testing.T) {
	missing, local := failure.Remote.Errorf("get a: %w", fs.ErrNotExist), failure.Local.Errorf("write b: full")
	other := errors.New("get c: the content differs")
	for want, errs := range map[int][]error{
		exitFailed:      {other, other},
		exitNotFound:    {missing, other},
		exitLocal:       {missing, local, other},
		exitInterrupted: {errors.Join(other, local), context.Canceled},
		exitUsage:       {context.Canceled, failure.Usage.Errorf("--x: no")},
	} {
		for range 2 {
			if got := exitCode(errors.Join(errs...)); got != want {
				t.Errorf("%v: exit code %d, want %d", errs, got, want)
			}
			slices.Reverse(errs)
		}
	}
}

func TestExitCodes(t *testing.T) {
	_, url := startServer(t, tftp.NoUploads, map[string]string{"a": "x"})
	local := filepath.Join(t.TempDir(), "f")
	writeFile(t, local, "content")
	for _, c := range []struct {
		args []string
		code int
		says string // in the message
	}{
		{[]string{"get", url + "a", local + ".new"}, 0, ""},
		{[]string{"get"}, exitUsage, " is missing"},
		{[]string{"get", "a", "b"}, exitUsage, "URL"},
		{[]string{"get", "ftp://h/a"}, exitUsage, "tftp://"},
		{[]string{"get", url + "a", url + "a"}, exitUsage, "both"},
		{[]string{"get", url + "a", url + "b", "-"}, exitUsage, "standard output"},
		{[]string{"get", url + "a", url + "b", local}, exitUsage, "directory"},
		{[]string{"get", "--blksize", "7", url + "a"}, exitUsage, "blksize"},
		{[]string{"get", "--windowsize", "65536", url + "a"}, exitUsage, "windowsize"},
		{[]string{"get", "--timeout", "1500ms", url + "a"}, exitUsage, "timeout"},
		{[]string{"get", "--rollover", "2", url + "a"}, exitUsage, "rollover"},
		{[]string{"get", "--nosuch", url + "a"}, exitUsage, "nosuch"},
		{[]string{"nosuch"}, exitUsage, "nosuch"},
		{[]string{"serve"}, exitUsage, "no directory is named"},
		{[]string{"serve", ".", "--http", "80"}, exitUsage, "HOST:PORT"},
		{[]string{"serve", ".", "--upload", "all"}, exitUsage, "overwrite"},
		{[]string{"serve", ".", "--tftp", ""}, exitUsage, "empty"},
		{[]string{"serve", ".", "--tftp", "bogus"}, exitUsage, "HOST:PORT"},
		{[]string{"serve", ".", "--tftp", strings.TrimSuffix(strings.TrimPrefix(url, "tftp://"), "/")}, exitFailed, "another server"},
		{[]string{"get", url + "a", ""}, exitUsage, "empty"},
		{[]string{"probe", url}, exitUsage, "no file name"},
		{[]string{"put", "-", url + "a"}, exitUsage, "standard input"},
		{[]string{"probe", "tftp://host.invalid/a"}, exitNoAnswer, "host.invalid"},
		{[]string{"serve", local + "/none"}, exitLocal, "none"},
		{[]string{"get", url + "none", "-"}, exitNotFound, "not found"},
		{[]string{"put", local, url + "a"}, exitRefused, "not allowed"},
		{[]string{"put", local + ".none", url + "a"}, exitLocal, "f.none"},
		{[]string{"get", url + "a", local + "/in/a/file"}, exitLocal, "directory"},
		{[]string{"put", filepath.Dir(local), url + "a"}, exitLocal, "not a regular file"},
	} {
		code, _, msg := haul(t, c.args...)
		if code != c.code || !strings.Contains(msg, c.says) {
			t.Errorf("haul %q: exit code %d, want %d, and a message with %q:\n%s", c.args, code, c.code, c.says, msg)
		}
	}
}

// TestNobodyListens takes as long as a client asks where the socket does not
// report refusals, as on the portable path.
func TestNobodyListens(t *testing.T) {
	t.Parallel()
	closed, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	url := "tftp://" + closed.LocalAddr().String() + "/a"
	_ = closed.Close()
	code, _, msg := haul(t, "probe", url)
	if code != exitNoAnswer || !strings.Contains(msg, "no TFTP server listens there") && !strings.Contains(msg, "peer does not answer") {
		t.Errorf("exit code %d, %s", code, msg)
	}
}

func TestGet(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 100_000)
	_, url := startServer(t, tftp.NoUploads, map[string]string{"a": "first", "sub/b": long, "empty": ""})
	to := t.TempDir()

	if code, out, msg := haul(t, "get", url+"a", "-"); code != 0 || out != "first" {
		t.Errorf("get to standard output: exit code %d, %q, %s", code, out, msg)
	}
	if code, _, msg := haul(t, "get", url+"a", url+"sub/b", url+"empty", to); code != 0 || !strings.Contains(msg, "b: 1.6 MB in ") {
		t.Errorf("get of several: exit code %d, %s", code, msg)
	}
	wantFile(t, filepath.Join(to, "a"), "first")
	wantFile(t, filepath.Join(to, "b"), long)
	wantFile(t, filepath.Join(to, "empty"), "")

	t.Chdir(to)
	if code, _, msg := haul(t, "get", "-q", "--blksize", "512", "--windowsize", "16", url+"sub/b"); code != 0 || msg != "" {
		t.Errorf("get -q: exit code %d, says %q", code, msg)
	}
	if code, _, _ := haul(t, "get", "-q", url+"a", os.DevNull); code != 0 {
		t.Errorf("get to a device: exit code %d", code)
	}
	// A failed transfer leaves what was there.
	if code, _, _ := haul(t, "get", "-q", url+"none", "a"); code != exitNotFound {
		t.Errorf("get of nothing: exit code %d", code)
	}
	wantFile(t, "a", "first")
	if left, _ := filepath.Glob(filepath.Join(to, ".haul*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestPutAndProbe(t *testing.T) {
	dir, url := startServer(t, tftp.CreateUploads, nil)
	from := t.TempDir()
	content := strings.Repeat("text\r\nmore\n", 5000)
	writeFile(t, filepath.Join(from, "x"), content)
	writeFile(t, filepath.Join(from, "y"), "why")

	if code, _, msg := haul(t, "put", filepath.Join(from, "x"), filepath.Join(from, "y"), url); code != 0 {
		t.Fatalf("put: exit code %d, %s", code, msg)
	}
	wantFile(t, filepath.Join(dir, "x"), content)
	wantFile(t, filepath.Join(dir, "y"), "why")
	if code, _, msg := haul(t, "put", filepath.Join(from, "y"), url+"x"); code != exitRefused || !strings.Contains(msg, "exists") {
		t.Errorf("put over an existing file: exit code %d, %s", code, msg)
	}
	wantFile(t, filepath.Join(dir, "x"), content)
	if code, _, msg := haul(t, "put", "--netascii", filepath.Join(from, "x"), url+"text"); code != 0 {
		t.Errorf("put --netascii: exit code %d, %s", code, msg)
	}
	wantFile(t, filepath.Join(dir, "text"), content)
	if code, out, msg := haul(t, "probe", url+"x"); code != 0 || out != "55000\n" {
		t.Errorf("probe: exit code %d, %q, %s", code, out, msg)
	}
}

// The user's own links lead where they lead, and the umask holds.
func TestLocalPaths(t *testing.T) {
	_, url := startServer(t, tftp.OverwriteUploads, map[string]string{"a": "content"})
	here, elsewhere := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(elsewhere, "f"), "old")
	if err := os.Symlink(filepath.Join(elsewhere, "f"), filepath.Join(here, "link")); err != nil {
		t.Skip("no symbolic links:", err)
	}
	if code, _, msg := haul(t, "get", "-q", url+"a", filepath.Join(here, "link")); code != 0 {
		t.Errorf("get to a link: exit code %d, %s", code, msg)
	}
	wantFile(t, filepath.Join(elsewhere, "f"), "content")
	if code, _, msg := haul(t, "put", "-q", filepath.Join(here, "link"), url+"b"); code != 0 {
		t.Errorf("put of a link: exit code %d, %s", code, msg)
	}
	if code, _, msg := haul(t, "get", "-q", url+"a", filepath.Join(here, "new")); code != 0 {
		t.Errorf("get: exit code %d, %s", code, msg)
	}
	info, err := os.Stat(filepath.Join(here, "new"))
	if err != nil {
		t.Fatal(err)
	}
	if want := store.UserPerm(); runtime.GOOS != "windows" && info.Mode().Perm() != want {
		t.Errorf("a new file has permissions %v, want %v", info.Mode().Perm(), want)
	}
}

func TestPrintError(t *testing.T) {
	var out bytes.Buffer
	printError(&out, errors.Join(errors.New("one"), fmt.Errorf("get x: %w", context.Canceled)))
	if got, want := out.String(), "haul: one\nhaul: get x: interrupted\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

// TestServe runs the server as a command, until its context ends.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "boot.img"), "image")
	writeFile(t, filepath.Join(dir, ".haul-ABCDEFGHIJKLMNOPQRSTUVWXYZ.part"), "left behind")
	ctx, cancel := context.WithCancel(t.Context())
	var out lockedBuffer
	cmd := newRoot()
	cmd.SetArgs([]string{"serve", dir, "--tftp", "127.0.0.1:0", "--http", "", "--https", "", "--sftp", "", "--upload", "create"})
	cmd.SetErr(&out)
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()

	url := ""
	for url == "" {
		select {
		case err := <-ended:
			t.Fatalf("serve ended: %v\n%s", err, out.String())
		case <-time.After(5 * time.Millisecond):
		}
		if _, rest, ok := strings.Cut(out.String(), "try: haul get "); ok {
			url, _, _ = strings.Cut(rest, " ")
		}
	}
	if code, got, msg := haul(t, "get", url, "-"); code != 0 || got != "image" {
		t.Errorf("the command that serve suggests: exit code %d, %q, %s", code, got, msg)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
	for _, want := range []string{"result=done", "file=boot.img", "direction=read", "bytes=5", "blksize=", "rtt=", "resends="} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("log lacks %q:\n%s", want, out.String())
		}
	}
}

func TestVersionAndCompletion(t *testing.T) {
	if code, out, _ := haul(t, "version"); code != 0 || !strings.HasPrefix(out, "haul ") {
		t.Errorf("version: exit code %d, %q", code, out)
	}
	_, version, _ := haul(t, "version")
	if !strings.HasPrefix(version, "haul "+module.Version()+" (") {
		t.Errorf("version: %q, and the file VERSION has %q", version, module.Version())
	}
	for _, flag := range []string{"--version", "-V"} {
		if code, out, _ := haul(t, flag); code != 0 || out != version {
			t.Errorf("haul %s: exit code %d, %q; want %q", flag, code, out, version)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, _ := haul(t, "completion", shell); code != 0 || !strings.Contains(out, "haul") {
			t.Errorf("completion %s: exit code %d", shell, code)
		}
	}
}
