//go:build !linux || haul_portable

package admission

import "syscall"

// ofPeer are the errors of accepting that concern one connection.
var ofPeer = []syscall.Errno{syscall.ECONNABORTED, syscall.ECONNRESET, syscall.EPERM}
