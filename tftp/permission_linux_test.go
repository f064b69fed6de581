package tftp

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/transfer"
)

// An unprivileged accesses a store without root's privileges, even if root runs the tests.
type unprivileged struct{ store.Store }

const nobody = 65534

// asNobody runs f without root's privileges. The user for file access belongs to one thread, and
// changing it drops the capabilities that override permissions.
func asNobody(f func()) {
	if os.Getuid() != 0 {
		f()
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setfsuid(nobody); err != nil {
		panic(err)
	}
	defer func() {
		if err := unix.Setfsuid(0); err != nil {
			panic(err)
		}
	}()
	f()
}

func (u unprivileged) Open(ctx context.Context, name string) (f store.File, err error) {
	asNobody(func() { f, err = u.Store.Open(ctx, name) })
	return f, err
}

func (u unprivileged) Create(ctx context.Context, name string, c store.Create) (up store.Upload, err error) {
	asNobody(func() { up, err = u.Store.Create(ctx, name, c) })
	return up, err
}

// partly is a store that has root's privileges only for the files of the good peer.
type partly struct{ store.Store }

func (p partly) Open(ctx context.Context, name string) (store.File, error) {
	if strings.HasPrefix(name, goodFile) {
		return p.Store.Open(ctx, name)
	}
	return unprivileged(p).Open(ctx, name)
}

func (p partly) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	if strings.HasPrefix(name, goodFile) {
		return p.Store.Create(ctx, name, c)
	}
	return unprivileged(p).Create(ctx, name, c)
}

// Files that may not be read or written are refused, and the answer does not reveal whether a
// file exists in an inaccessible directory.
func TestFilePermissions(t *testing.T) {
	runCase(t, "closed", func(s *Config) { s.Store = partly{s.Store} }, func(tb *testbed) {
		writeFile(tb, tb.dir, "file", "secret")
		writeFile(tb, tb.dir, "dir/file", "secret")
		writeFile(tb, tb.dir, "read-only/file", "open")
		for name, mode := range map[string]os.FileMode{"file": 0, "dir": 0, "read-only": 0o555, "read-only/file": 0o444} {
			tb.must(os.Chmod(filepath.Join(tb.dir, name), mode))
		}
		tb.Cleanup(func() {
			for _, name := range []string{"dir", "read-only"} {
				tb.must(os.Chmod(filepath.Join(tb.dir, name), 0o755))
			}
		})
		for _, name := range []string{"file", "dir/file", "dir/missing"} {
			_, fault := tb.fetch(tb.askAgain(), name, "octet", nil)
			tb.wantFault(fault, transfer.AccessViolation)
		}
		for _, name := range []string{"dir/file", "dir/new", "read-only/new", "read-only/file"} {
			tb.wantFault(tb.put(tb.askAgain(), name, []byte("x"), nil), transfer.AccessViolation)
		}
		if got, fault := tb.fetch(tb.askAgain(), "read-only/file", "octet", nil); string(got) != "open" {
			tb.Errorf("%q, %q", got, fault)
		}
	})
}

// wantFault checks an ERROR.
func (tb *testbed) wantFault(fault []byte, code transfer.ErrorCode) {
	tb.Helper()
	if !bytes.HasPrefix(fault, says(code)) {
		tb.Errorf("ended by %q, want ERROR %d", fault, code)
	}
}
