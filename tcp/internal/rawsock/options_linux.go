//go:build linux && !haul_portable

package rawsock

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxCongestion is the size of the longest name of a congestion control, including its NUL:
// TCP_CA_NAME_MAX.
const maxCongestion = 16

// Bool returns the number that switches a socket option on or off.
func Bool(on bool) int {
	if on {
		return 1
	}
	return 0
}

// WholeSeconds returns d in seconds, rounded up, and at least 1.
func WholeSeconds(d time.Duration) int {
	return int(max(1, (d+time.Second-1)/time.Second))
}

// SetLinger sets what close(2) does with bytes that are not yet acknowledged: see
// net.TCPConn.SetLinger.
func SetLinger(fd, seconds int) error {
	l := unix.Linger{Onoff: int32(Bool(seconds >= 0)), Linger: int32(max(seconds, 0))}
	return os.NewSyscallError("setsockopt", unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &l))
}

// SetBuffer sets the size of a connection's receive buffer, or of its send buffer.
func SetBuffer(fd, bytes int, receive bool) error {
	opt := unix.SO_SNDBUF
	if receive {
		opt = unix.SO_RCVBUF
	}
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, opt, bytes))
}

// SetCongestion sets the congestion control of a socket. If that fails, it returns the names that
// may be chosen, as far as they can be found out.
func SetCongestion(fd int, name string) (has []string, err error) {
	err = unix.ENOENT
	if len(name) < maxCongestion { // the kernel would cut a longer name off
		err = unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
	}
	if err == nil {
		return nil, nil
	}
	list := "available"
	if errors.Is(err, fs.ErrPermission) { // the algorithm exists, but only root may choose it
		list = "allowed"
	}
	// On failure the names remain unknown.
	names, _ := os.ReadFile("/proc/sys/net/ipv4/tcp_" + list + "_congestion_control")
	return strings.Fields(string(names)), err
}
