package sshconn

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// TimeConnect measures how long a dialer takes to connect, which is a round trip of the path. It
// makes the dialer record when it begins, after the name lookup. Call the returned function as soon
// as the dialer has connected: it returns the time since the dialer began, or 0 if the beginning
// was not recorded. If the dialer tried several addresses, the time includes all of them. So the
// result may be longer than a round trip, but is never shorter.
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
