package hooks

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// programAttr gives a program a process group of its own. The kernel kills the program when the
// helper dies, because nothing else would end it in time.
func programAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adoptOrphans makes this process the parent of orphans: processes that the programs leave running.
// In a container the server may be process 1, which waits for none of them.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } // without it, process 1 becomes their parent
