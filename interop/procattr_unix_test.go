//go:build unix && !linux

package interop

import "syscall"

// diesWithUs can do nothing here.
func diesWithUs(*syscall.SysProcAttr) {}
