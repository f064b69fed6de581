//go:build !windows

package main

// The terminal that a process belongs to.
const (
	terminalIn  = "/dev/tty"
	terminalOut = "/dev/tty"
)
