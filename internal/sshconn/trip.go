package sshconn

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// TimeConnect makes a dialer note when it begins to connect, behind the look-up of the
// name. Once it has connected, the function returned says how long that took: a round
// trip of the path, or 0 if it is not known. If it tried several addresses, the time
// counts from the first: that may be too long, and never too short.
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
