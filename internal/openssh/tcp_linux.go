package openssh

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// control sets what a socket needs before it connects.
func (d *Dialer) control(_, _ string, raw syscall.RawConn) error {
	if d.Congestion == "" {
		return nil
	}
	var err error
	if cerr := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, d.Congestion)
	}); cerr != nil {
		return cerr
	}
	if err != nil {
		return configErrorf("congestion control %q: %w", d.Congestion, err)
	}
	return nil
}
