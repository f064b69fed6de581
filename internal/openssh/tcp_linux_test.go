package openssh

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// A Dialer sets the socket options that it says.
func TestSocketOptions(t *testing.T) {
	s := startServer(t, openServer())
	for _, delay := range []bool{false, true} {
		d := &Dialer{Delay: delay, Congestion: "reno"} // every kernel has that
		d.Wrap = func(c net.Conn) net.Conn {
			raw, err := c.(*net.TCPConn).SyscallConn()
			if err != nil {
				t.Error(err)
				return c
			}
			err = raw.Control(func(fd uintptr) {
				off, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY)
				if err != nil || (off == 0) != delay {
					t.Errorf("delay %v: TCP_NODELAY is %d, %v", delay, off, err)
				}
				name, err := unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
				if err != nil || name != "reno" {
					t.Errorf("congestion control is %q, %v", name, err)
				}
			})
			if err != nil {
				t.Error(err)
			}
			return c
		}
		dialOK(t, d, s.dest(t))
	}
}
