package hooks

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// programAttr gives a program its own process group. The kernel kills the program when the helper
// dies, because nothing else would end the program in time.
func programAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adoptOrphans makes this process the parent of orphans, which are processes that the programs
// leave running. In a container the server may be process 1, which does not wait for orphans.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } // if this fails, process 1 becomes their parent
