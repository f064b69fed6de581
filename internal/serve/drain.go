package serve

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/haul-project/haul/tcp"
)

// A drainListener is a listener whose server can stop accepting without ending. Once a
// successor has taken over it accepts nothing more, and the open connections remain. To
// package sftp that is no end: Accept just does not return.
type drainListener struct {
	net.Listener
	ctx context.Context // ends when the server does

	draining chan struct{}  // closed when nothing more is to be accepted
	done     chan struct{}  // closed when nothing more can be
	once     sync.Once      // closes done
	conns    sync.WaitGroup // the open connections
}

func newDrainListener(ctx context.Context, l net.Listener) *drainListener {
	return &drainListener{Listener: l, ctx: ctx, draining: make(chan struct{}), done: make(chan struct{})}
}

// drain accepts nothing more. It returns when all connections are closed, limit has
// passed, or the server's context has ended.
func (v *drainListener) drain(limit time.Duration) {
	close(v.draining)
	_ = v.Listener.Close() // the successor has descriptors of its own
	empty := make(chan struct{})
	go func() {
		<-v.done // from here on none is added
		v.conns.Wait()
		close(empty)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-empty:
	case <-timer.C:
	case <-v.ctx.Done():
	}
}

// Accept returns the next connection. After drain it waits for the end of the server.
func (v *drainListener) Accept() (net.Conn, error) {
	c, err := v.Listener.Accept()
	if err == nil {
		v.conns.Add(1)
		return countConn(c, &v.conns), nil
	}
	select {
	case <-v.draining:
		v.once.Do(func() { close(v.done) })
		<-v.ctx.Done()
	case <-v.ctx.Done():
		v.once.Do(func() { close(v.done) })
	default: // there were no descriptors: the server calls again
	}
	return nil, err
}

// countConn counts c until it is closed. A [tcp.Conn] keeps its methods.
func countConn(c net.Conn, all *sync.WaitGroup) net.Conn {
	if t, ok := c.(*tcp.Conn); ok {
		return &countedTCPConn{Conn: t, closed: sync.OnceFunc(all.Done)}
	}
	return &countedConn{Conn: c, closed: sync.OnceFunc(all.Done)}
}

type countedTCPConn struct {
	*tcp.Conn
	closed func()
}

func (v *countedTCPConn) Close() error {
	defer v.closed()
	return v.Conn.Close()
}

type countedConn struct {
	net.Conn
	closed func()
}

func (v *countedConn) Close() error {
	defer v.closed()
	return v.Conn.Close()
}
