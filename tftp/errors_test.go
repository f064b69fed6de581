package tftp

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

// The test requests names as clients send them from a directory, and checks the results.
func TestNamesInDirectory(t *testing.T) {
	outside := t.TempDir()
	writeFile(t, outside, "secret", "secret")
	dir, st := realDir(t)
	writeFile(t, dir, "boot/image", "image")
	link(t, filepath.Join(outside, "secret"), dir, "absolute")
	link(t, filepath.Join("..", filepath.Base(outside), "secret"), dir, "relative")
	link(t, outside, dir, "way-out")
	link(t, "boot/image", dir, "inside")
	link(t, "loop", dir, "loop")
	pipe(t, filepath.Join(dir, "pipe"))
	if err := os.Mkdir(filepath.Join(dir, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	up, err := st.Create(t.Context(), "upload", store.Create{})
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	hidden := ""
	for _, e := range entries(t, dir) {
		if strings.HasPrefix(e, ".haul-") {
			hidden = e
		}
	}

	const ok = 99
	tests := []struct {
		name  string
		read  transfer.ErrorCode
		write transfer.ErrorCode
	}{
		{"boot/image", ok, ok},
		{"/boot//image", ok, ok},
		{`\boot\image`, ok, ok},
		{"inside", ok, ok},
		{"missing", transfer.FileNotFound, ok},
		{"boot/missing/too", transfer.FileNotFound, transfer.FileNotFound},
		{"boot/image/too", transfer.FileNotFound, transfer.FileNotFound},
		{"..", transfer.AccessViolation, transfer.AccessViolation},
		{"../" + filepath.Base(outside) + "/secret", transfer.AccessViolation, transfer.AccessViolation},
		{"boot/../../x", transfer.AccessViolation, transfer.AccessViolation},
		{filepath.ToSlash(outside) + "/secret", transfer.FileNotFound, transfer.FileNotFound},
		{"absolute", transfer.AccessViolation, transfer.AccessViolation},
		{"relative", transfer.AccessViolation, transfer.AccessViolation},
		{"way-out/secret", transfer.AccessViolation, transfer.AccessViolation},
		{"way-out/missing", transfer.AccessViolation, transfer.AccessViolation},
		{"dir", transfer.AccessViolation, transfer.AccessViolation},
		{"/", transfer.AccessViolation, transfer.AccessViolation},
		{"pipe", transfer.AccessViolation, transfer.AccessViolation},
		{strings.Repeat("x", 300), transfer.AccessViolation, transfer.AccessViolation},
		{strings.Repeat("x/", 400) + "x", transfer.FileNotFound, transfer.FileNotFound},
		{hidden, transfer.FileNotFound, transfer.AccessViolation},
	}
	if runtime.GOOS == "linux" { // on other systems names may have to be valid text
		tests = append(tests, tests[0])
		last := &tests[len(tests)-1]
		last.name, last.read, last.write = "\xff\xfe", transfer.FileNotFound, ok
	}
	l := serve(t, Config{Store: st, Upload: OverwriteUploads})
	var c tftpclient.Client
	for _, test := range tests {
		_, err := c.Get(t.Context(), at(l, test.name), tftptest.Into(store.Mem(0), "x"))
		if test.read == ok {
			if err != nil {
				t.Errorf("get %q: %v", test.name, err)
			}
		} else if tftptest.WantFault(t, err, test.read); t.Failed() {
			t.Fatalf("get %.60q", test.name)
		}
		_, err = c.Put(t.Context(), at(l, test.name), strings.NewReader("image"), 5)
		if test.write == ok {
			if err != nil {
				t.Errorf("put %q: %v", test.name, err)
			}
		} else if tftptest.WantFault(t, err, test.write); t.Failed() {
			t.Fatalf("put %.60q", test.name)
		}
		if err != nil && strings.Contains(err.Error(), outside) && !strings.Contains(test.name, outside) {
			t.Errorf("the answer for %q reveals paths: %v", test.name, err)
		}
	}
	_, err = c.Get(t.Context(), at(l, "loop"), tftptest.Into(store.Mem(0), "x"))
	if fault, ok := errors.AsType[*transfer.Error](err); !ok || !fault.Remote {
		t.Errorf("a link to itself: %v", err)
	}
	c.Wait()
	if b, err := os.ReadFile(filepath.Join(outside, "secret")); err != nil || string(b) != "secret" {
		t.Errorf("outside the root: %q, %v", b, err)
	}
	if e := entries(t, outside); len(e) != 1 {
		t.Errorf("outside the root are %q", e)
	}
	for _, to := range []tftpclient.Target{{Host: "127.0.0.1", Name: ""}, {Name: "a"}, {Host: "127.0.0.1", Name: "a\x00b"}, {Host: "127.0.0.1", Name: strings.Repeat("x", 1025)}} {
		if _, err := c.Get(t.Context(), to, nil); err == nil {
			t.Errorf("a client asked for %+v", to)
		}
	}
}

func link(t *testing.T, target, dir, name string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
		if runtime.GOOS == "windows" {
			t.Skipf("Windows lets only some users make links: %v", err)
		}
		t.Fatal(err)
	}
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// The test checks which ERROR packet each error causes.
func TestErrorPacketFor(t *testing.T) {
	tests := map[error]transfer.ErrorCode{
		fs.ErrNotExist:       transfer.FileNotFound,
		fs.ErrExist:          transfer.FileExists,
		fs.ErrPermission:     transfer.AccessViolation,
		fs.ErrInvalid:        transfer.AccessViolation,
		store.ErrNotRegular:  transfer.AccessViolation,
		store.ErrNoSpace:     transfer.DiskFull,
		store.ErrUnsettled:   transfer.NotDefined,
		fileio.ErrTooLarge:   transfer.DiskFull,
		errUploadsOff:        transfer.AccessViolation,
		errBusy:              transfer.NotDefined,
		errStopping:          transfer.NotDefined,
		errors.New("secret"): transfer.NotDefined,
		// An error from a remote peer is not passed on.
		&transfer.Error{Code: transfer.NoSuchUser, Message: "secret", Remote: true}: transfer.NotDefined,
	}
	for err, want := range tests {
		code, msg := errorPacketFor(&fs.PathError{Op: "open", Path: "/secret", Err: err})
		if code != want || strings.Contains(msg, "secret") || msg == "" {
			t.Errorf("%v: ERROR %d %q, want %d", err, code, msg, want)
		}
	}
	for _, err := range []error{errBusy, fileio.ErrManyFiles, syscall.EMFILE, syscall.ENFILE} {
		if code, msg := errorPacketFor(&fs.PathError{Op: "open", Path: "x", Err: err}); code != transfer.NotDefined || !strings.Contains(msg, "busy") {
			t.Errorf("%v: ERROR %d %q, want 0 and that the server is busy", err, code, msg)
		}
	}
}

// The ERROR for a refused upload says which directory is missing, or which name is not permitted.
func TestUploadRefusalNamesTheCause(t *testing.T) {
	_, st := realDir(t)
	l := serve(t, Config{Store: store.Visible(st), Upload: CreateUploads})
	var c tftpclient.Client
	for name, want := range map[string]transfer.Error{
		"missing/file": {Remote: true, Code: transfer.FileNotFound, Message: "directory not found"},
		".hidden":      {Remote: true, Code: transfer.AccessViolation, Message: "names that begin with a dot are not served"},
	} {
		_, err := c.Put(t.Context(), at(l, name), strings.NewReader("x"), 1)
		if fault, ok := errors.AsType[*transfer.Error](err); !ok || *fault != want {
			t.Errorf("put %s: %v, want %v", name, err, want)
		}
	}
}
