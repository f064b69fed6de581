package sshconn

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// TimeConnect makes a dialer record when it begins to connect, after the name lookup. Once it has
// connected, the returned function returns how long that took: a round trip of the path, or 0 if
// unknown. If the dialer tried several addresses, the time counts from the first: it may be too
// long, but never too short.
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
