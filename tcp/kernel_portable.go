//go:build !linux || haul_portable

package tcp

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/haul-project/haul/tcp/internal/conns"
)

// A kernel is one listening socket of package net.
type kernel struct {
	l net.Listener
	o Options
}

// listen opens the socket of an address. With package net, an address can have only one socket.
func listen(ctx context.Context, network, addr string, o Options) ([]*kernel, net.Addr, error) {
	if err := o.checkSupported(); err != nil {
		return nil, nil, err
	}
	config := net.ListenConfig{KeepAliveConfig: o.keepAlive()}
	config.SetMultipathTCP(false) // as on Linux: see rawsock.Listen
	l, err := config.Listen(ctx, network, addr)
	if err != nil {
		return nil, nil, conns.Unnamed(err)
	}
	k, err := newKernel(l, o)
	return []*kernel{k}, l.Addr(), err
}

// checkSupported returns an error for options that do not work on this system and that a program
// must not silently miss.
func (o Options) checkSupported() error {
	if o.Congestion != "" {
		return &CongestionError{Name: o.Congestion, Err: errors.ErrUnsupported}
	}
	return nil
}

// newKernel returns a kernel whose listening socket is l.
func newKernel(l net.Listener, o Options) (*kernel, error) {
	if err := o.checkSupported(); err != nil {
		_ = l.Close()
		return nil, err
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // Socket.close removes the file
	}
	return &kernel{l: l, o: o}, nil
}

// share does nothing: on this system, stop leaves no filter behind.
func (k *kernel) share() {}

// accept waits for a connection and puts it into c. It returns net.ErrClosed once the socket is
// stopped.
func (k *kernel) accept(c *conns.Conn) error {
	nc, err := k.l.Accept()
	if err != nil {
		return conns.Unnamed(err)
	}
	if t, ok := nc.(*net.TCPConn); ok {
		if k.o.Nagle {
			_ = t.SetNoDelay(false)
		}
		if k.o.SendBuffer > 0 {
			_ = t.SetWriteBuffer(k.o.SendBuffer)
		}
	}
	c.NC = nc
	c.Reset()
	return nil
}

// CanChooseCongestion reports whether programs can choose the congestion control on this system.
const CanChooseCongestion = false

// stop makes accept return. Connections that are still in the queue are reset.
func (k *kernel) stop(bool) { _ = k.l.Close() }

func (k *kernel) close() error {
	if err := k.l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// duplicate returns a duplicate of the socket, for another process.
func (k *kernel) duplicate() (*os.File, error) {
	l, ok := k.l.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return l.File()
}

// descriptor, onStop and isStopped are only called by loops, and this system has no loops.
func (k *kernel) descriptor() int              { return -1 }
func (k *kernel) onStop(func())                {}
func (k *kernel) isStopped() (bool, time.Time) { return false, time.Time{} }
