//go:build unix && !linux

package interop

import "syscall"

// diesWithUs does nothing: this system lacks such a setting.
func diesWithUs(*syscall.SysProcAttr) {}
