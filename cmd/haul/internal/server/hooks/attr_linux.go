package hooks

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// programAttr gives a program its own process group, and makes the kernel kill the program when the
// helper dies. Without the helper, nothing else would stop the program at its time limit.
func programAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adoptOrphans makes this process the parent of orphans, which are processes that hook programs
// leave running. Otherwise their parent would be process 1. In a container that may be the server,
// which does not wait for orphans.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }
