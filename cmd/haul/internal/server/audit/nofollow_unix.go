//go:build unix

package audit

import "syscall"

// noFollow has a symbolic link not be opened.
const noFollow = syscall.O_NOFOLLOW
