package interop

import "syscall"

// diesWithUs makes the kernel kill a process if the test binary ends without cleaning up, as at
// go test's own timeout.
func diesWithUs(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
