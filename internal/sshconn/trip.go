package sshconn

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// TimeConnect makes a dialer record when it begins to connect, after the name lookup. Once the
// dialer has connected, the returned function returns how long that took, which is a round trip of
// the path, or 0 if it is not known. If the dialer tried several addresses, the time includes all
// of them. So it may be too long, but is never too short.
func TimeConnect(d *net.Dialer) func() time.Duration {
	var began atomic.Pointer[time.Time]
	before := d.Control
	d.Control = func(network, address string, c syscall.RawConn) error {
		now := time.Now()
		began.CompareAndSwap(nil, &now)
		if before != nil {
			return before(network, address, c)
		}
		return nil
	}
	return func() time.Duration {
		at := began.Load()
		if at == nil {
			return 0
		}
		return time.Since(*at)
	}
}
