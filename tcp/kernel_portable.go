//go:build !linux || haul_portable

package tcp

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
)

// A kernel is one listening socket.
type kernel struct {
	l net.Listener
	o Options
}

// listen opens the socket of an address: package net can have only one.
func listen(ctx context.Context, network, addr string, o Options) ([]*kernel, net.Addr, error) {
	config := net.ListenConfig{KeepAliveConfig: o.KeepAlive.config()}
	config.SetMultipathTCP(false) // as on the fast path
	l, err := config.Listen(ctx, network, addr)
	if err != nil {
		return nil, nil, unnamed(err)
	}
	k, err := newKernel(l, o)
	return []*kernel{k}, l.Addr(), err
}

func newKernel(l net.Listener, o Options) (*kernel, error) {
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // Socket does that
	}
	return &kernel{l: l, o: o}, nil
}

// config is the same for package net.
func (k KeepAlive) config() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: !k.Off, Idle: k.idle(), Interval: k.interval(), Count: k.count()}
}

// share notes that others may have the socket too.
func (k *kernel) share() {}

// accept waits for a connection and puts it into c. It returns net.ErrClosed when the
// socket is stopped.
func (k *kernel) accept(c *sock) error {
	nc, err := k.l.Accept()
	if err != nil {
		return unnamed(err)
	}
	if t, ok := nc.(*net.TCPConn); ok {
		if k.o.Nagle {
			_ = t.SetNoDelay(false)
		}
		if k.o.SendBuffer > 0 {
			_ = t.SetWriteBuffer(k.o.SendBuffer)
		}
	}
	c.nc = nc
	c.sysReset()
	return nil
}

// CanChooseCongestion reports whether this system lets programs choose the congestion
// control.
const CanChooseCongestion = false

// stop ends accept. Connections in the queue are reset.
func (k *kernel) stop(bool) { _ = k.l.Close() }

func (k *kernel) close() error {
	if err := k.l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// duplicate returns the socket for another process.
func (k *kernel) duplicate() (*os.File, error) {
	l, ok := k.l.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return l.File()
}

// isOfPeer reports whether a connection ended before it was accepted.
func isOfPeer(err error) bool {
	return isAny(err, syscall.ECONNABORTED, syscall.ECONNRESET, syscall.EPERM)
}

// hasLoops says that no loops serve connections here: each has a goroutine.
const hasLoops = false

// A loop, and its loopState, are for systems that have them.
type (
	loop      struct{}
	loopState struct{}
)

var _ = EventConn{loopState: loopState{}}

func newLoop(*acceptor) (*loop, error) { return nil, errors.ErrUnsupported }

func (*loop) run()       {}
func (*loop) close()     {}
func (*loop) wake()      {}
func (*loop) placeFree() {}
