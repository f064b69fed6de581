//go:build !windows

package remote

// The terminal that a process belongs to.
const (
	terminalIn  = "/dev/tty"
	terminalOut = "/dev/tty"
)
