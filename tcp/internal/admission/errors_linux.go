//go:build linux && !haul_portable

package admission

import (
	"syscall"
)

// ofPeer lists the errors of accept(2) that concern a single connection: see "Error handling" in
// its manual page.
var ofPeer = []syscall.Errno{syscall.ECONNABORTED, syscall.EPERM, syscall.EPROTO, syscall.ENETDOWN, syscall.ENOPROTOOPT,
	syscall.EHOSTDOWN, syscall.ENONET, syscall.EHOSTUNREACH, syscall.EOPNOTSUPP, syscall.ENETUNREACH, syscall.ETIMEDOUT}
