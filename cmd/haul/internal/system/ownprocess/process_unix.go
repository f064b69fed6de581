//go:build unix

package ownprocess

import (
	"syscall"
	"time"
)

// CPUTime returns the processor time that this process has used, as the sum of user and system
// time. If the time is not known, it returns 0.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// OpenFiles returns how many descriptors this process may have. The Go runtime has already raised
// the soft limit to the hard limit.
func OpenFiles() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 1 << 30
	}
	return int(min(limit.Cur, 1<<30))
}
