package tftp

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

// An unprivileged is a store without privileges over files, even if root runs
// the tests.
type unprivileged struct{ store.Store }

const nobody = 65534

// asNobody runs f without root's power. The user for file access belongs to
// one thread, and the capabilities that override permissions go with it.
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

func TestNoPermission(t *testing.T) {
	dir, st := realDir(t)
	for name, mode := range map[string]os.FileMode{"file": 0, "dir": 0, "read-only": 0o555} {
		var err error
		p := filepath.Join(dir, name)
		if name == "file" {
			err = os.WriteFile(p, []byte("secret"), mode)
		} else {
			err = os.Mkdir(p, mode)
		}
		if err == nil {
			err = os.Chmod(p, mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "dir"), 0o755) })
	l := serve(t, Config{Store: unprivileged{st}, Upload: OverwriteUploads})
	var c tftpclient.Client
	for _, name := range []string{"file", "dir/file"} {
		_, err := c.Get(t.Context(), at(l, name), tftptest.Into(store.Mem(0), "x"))
		tftptest.WantFault(t, err, transfer.AccessViolation)
	}
	for _, name := range []string{"dir/new", "read-only/new"} {
		_, err := c.Put(t.Context(), at(l, name), strings.NewReader("x"), 1)
		tftptest.WantFault(t, err, transfer.AccessViolation)
	}
}
