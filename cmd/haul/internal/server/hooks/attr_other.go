//go:build unix && !linux

package hooks

import "syscall"

// programAttr gives a program a process group of its own.
func programAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func adoptOrphans() {}
