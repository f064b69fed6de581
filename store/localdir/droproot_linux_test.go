package localdir_test

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

const nobody = 65534

// dropRoot runs f without root's rights to all files.
func dropRoot(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		f()
		return
	}
	// The user for file access belongs to one thread. The capabilities that override permissions
	// are dropped with it, and restored with it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setfsuid(nobody); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setfsuid(0); err != nil {
			t.Errorf("being root again: %v", err)
		}
	}()
	f()
}
