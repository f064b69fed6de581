//go:build unix

package serve

import "syscall"

// openFiles returns how many descriptors this process may have. The Go runtime
// has raised the soft limit to the hard one already.
func openFiles() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 1 << 30
	}
	return int(min(limit.Cur, 1<<30))
}
