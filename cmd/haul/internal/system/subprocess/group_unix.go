//go:build unix

package subprocess

import (
	"os/exec"
	"syscall"
)

// ownGroup makes a program start a process group of its own, and reports whether the system
// supports that.
func ownGroup(cmd *exec.Cmd) bool {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return true
}

func signalGroup(leader int, sig syscall.Signal) error { return syscall.Kill(-leader, sig) }
