//go:build !linux || haul_portable

package admission

import "syscall"

// ofPeer lists the errors from accepting that concern a single connection.
var ofPeer = []syscall.Errno{syscall.ECONNABORTED, syscall.ECONNRESET, syscall.EPERM}
