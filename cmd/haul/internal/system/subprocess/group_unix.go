//go:build unix

package subprocess

import (
	"os/exec"
	"syscall"
)

// ownGroup has a program begin a process group, and reports whether it will.
func ownGroup(cmd *exec.Cmd) bool {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return true
}

func signalGroup(leader int, sig syscall.Signal) error { return syscall.Kill(-leader, sig) }
