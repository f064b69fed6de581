//go:build !linux

package sshconn

// LargestSend returns 0, so that WidenSend does nothing: on this system no better size than the
// default is known.
func LargestSend() int { return 0 }
