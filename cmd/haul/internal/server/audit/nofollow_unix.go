//go:build unix

package audit

import "syscall"

// noFollow is the flag that makes opening a file fail if the file is a symbolic link.
const noFollow = syscall.O_NOFOLLOW
