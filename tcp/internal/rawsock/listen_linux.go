//go:build linux && !haul_portable

package rawsock

import (
	"context"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Listen opens n sockets that share an address. It refuses an address that another socket uses,
// even if that socket would allow sharing it.
func Listen(ctx context.Context, network, addr string, n int) (_ []net.Listener, err error) {
	// The first socket is opened without SO_REUSEPORT. With it, the socket could share the address
	// with another server of this user, and neither server would get an error.
	var alone net.ListenConfig
	alone.SetMultipathTCP(false) // MPTCP sockets accept few of the options, and Landlock does not cover them
	first, err := alone.Listen(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	ls := []net.Listener{first}
	defer func() {
		if err != nil {
			for _, l := range ls {
				_ = l.Close()
			}
		}
	}()
	if n == 1 {
		return ls, nil
	}
	// The first socket stays open, and is made shareable. If it were closed and opened again,
	// clients that connect meanwhile would be reset, and another program could take the port.
	if err := share(first.(*net.TCPListener)); err != nil {
		return nil, err
	}
	// The other sockets listen on the given address rather than on that of the first socket, which
	// may not show whether it includes IPv4. Only the port is taken from the first socket.
	same, err := withPort(addr, first.Addr())
	if err != nil {
		return nil, err
	}
	reuse := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return setReusePort(c) }}
	reuse.SetMultipathTCP(false)
	for len(ls) < n {
		l, err := reuse.Listen(ctx, network, same)
		if err != nil {
			return nil, err
		}
		ls = append(ls, l)
	}
	return ls, nil
}

// share allows other sockets of this user to listen on the same address.
func share(l *net.TCPListener) error {
	c, err := l.SyscallConn()
	if err != nil {
		return err
	}
	return setReusePort(c)
}

func setReusePort(c syscall.RawConn) error {
	var err error
	if e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }); e != nil {
		return e
	}
	return os.NewSyscallError("setsockopt", err)
}

// withPort returns addr with its port replaced by the port of got.
func withPort(addr string, got net.Addr) (string, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(got.String())
	return net.JoinHostPort(host, port), err
}
