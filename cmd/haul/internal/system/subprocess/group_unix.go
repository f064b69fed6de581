//go:build unix

package subprocess

import (
	"os/exec"
	"syscall"
)

// ownGroup gives a program its own process group, and reports whether the system supports that.
func ownGroup(cmd *exec.Cmd) bool {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return true
}

func signalGroup(leader int, sig syscall.Signal) error { return syscall.Kill(-leader, sig) }
