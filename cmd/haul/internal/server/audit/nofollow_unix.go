//go:build unix

package audit

import "syscall"

// noFollow prevents the opening of a symbolic link.
const noFollow = syscall.O_NOFOLLOW
