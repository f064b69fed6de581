package interop

import "syscall"

// diesWithUs has the kernel kill a process when the test binary dies without
// cleaning up, as it does when go test's own timeout strikes.
func diesWithUs(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
