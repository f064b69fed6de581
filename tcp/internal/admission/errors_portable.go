//go:build !linux || haul_portable

package admission

import "syscall"

// ofPeer are the errors of accepting about a single connection.
var ofPeer = []syscall.Errno{syscall.ECONNABORTED, syscall.ECONNRESET, syscall.EPERM}
