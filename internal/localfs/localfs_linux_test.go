package localfs

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Of recognizes file systems in memory. It returns Unknown for files that the kernel generates, and
// for closed descriptors.
func TestOf(t *testing.T) {
	ram, err := unix.MemfdCreate("x", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ram)
	made, err := os.Open("/proc/version")
	if err != nil {
		t.Skip(err)
	}
	defer made.Close()
	for fd, want := range map[int]Kind{ram: RAM, int(made.Fd()): Unknown, -1: Unknown} {
		if got := Of(fd); got != want {
			t.Errorf("descriptor %d: %d, want %d", fd, got, want)
		}
	}
}
