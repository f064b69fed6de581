//go:build !windows

package remote

// The terminal of this process.
const (
	terminalIn  = "/dev/tty"
	terminalOut = "/dev/tty"
)
