//go:build unix && !linux

package hooks

import "syscall"

// programAttr gives a program its own process group.
func programAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func adoptOrphans() {}
