//go:build !windows

package remote

// These are the paths of this process's terminal.
const (
	terminalIn  = "/dev/tty"
	terminalOut = "/dev/tty"
)
