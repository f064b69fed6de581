package hooks

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// programAttr gives a program a process group of its own. The kernel ends it with the helper:
// nobody would end it in time otherwise.
func programAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adoptOrphans has processes become children of this one that programs below it leave running.
// In a container the server may be process 1, and waits for none of them.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } // without it they are process 1's
