//go:build linux && !haul_portable

package admission

import (
	"syscall"
)

// ofPeer are the errors of accept(2) about a single connection: see "Error handling" there.
var ofPeer = []syscall.Errno{syscall.ECONNABORTED, syscall.EPERM, syscall.EPROTO, syscall.ENETDOWN, syscall.ENOPROTOOPT,
	syscall.EHOSTDOWN, syscall.ENONET, syscall.EHOSTUNREACH, syscall.EOPNOTSUPP, syscall.ENETUNREACH, syscall.ETIMEDOUT}
