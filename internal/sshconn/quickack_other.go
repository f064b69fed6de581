//go:build !linux

package sshconn

import "net"

// quickAck returns nil: this system has no such option.
func quickAck(net.Conn) func() { return nil }
