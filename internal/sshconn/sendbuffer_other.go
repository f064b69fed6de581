//go:build !linux

package sshconn

// LargestSend returns 0, because no better size is known on other systems.
func LargestSend() int { return 0 }
