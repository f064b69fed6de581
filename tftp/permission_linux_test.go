package tftp

import (
	"context"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/store"
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
