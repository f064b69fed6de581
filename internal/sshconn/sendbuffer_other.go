//go:build !linux

package sshconn

// LargestSend returns 0: on other kernels, no better value is known.
func LargestSend() int { return 0 }
