package serve

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/haul-project/haul/tcp"
)

// A leaving is the listener of a server of connections that goes when it has a
// successor: it accepts no more, and all who are there stay as long as they like. To
// package sftp that is no end at all: there is just nobody to be accepted.
type leaving struct {
	net.Listener
	ctx context.Context // ends when the server does

	left     chan struct{} // closed when nobody is to be accepted any more
	done     chan struct{} // closed when nobody can be
	once     sync.Once     // of that
	visitors sync.WaitGroup
}

func newLeaving(ctx context.Context, l net.Listener) *leaving {
	return &leaving{Listener: l, ctx: ctx, left: make(chan struct{}), done: make(chan struct{})}
}

// leave accepts no more, and returns when all connections have been closed, limit
// is over, or the server's context has ended.
func (v *leaving) leave(limit time.Duration) {
	close(v.left)
	_ = v.Listener.Close() // the successor has descriptors of its own
	alone := make(chan struct{})
	go func() {
		<-v.done // from here on there are no more visitors
		v.visitors.Wait()
		close(alone)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-alone:
	case <-timer.C:
	case <-v.ctx.Done():
	}
}

// Accept returns the next connection. When the server has left there is none, and it
// waits for the end.
func (v *leaving) Accept() (net.Conn, error) {
	c, err := v.Listener.Accept()
	if err == nil {
		v.visitors.Add(1)
		return visitorOf(c, &v.visitors), nil
	}
	select {
	case <-v.left:
		v.once.Do(func() { close(v.done) })
		<-v.ctx.Done()
	case <-v.ctx.Done():
		v.once.Do(func() { close(v.done) })
	default: // for want of descriptors: it comes back
	}
	return nil, err
}

// visitorOf counts c until it is closed. What it can do besides, such as being
// tuned, it still can.
func visitorOf(c net.Conn, all *sync.WaitGroup) net.Conn {
	if t, ok := c.(*tcp.Conn); ok {
		return &tcpVisitor{Conn: t, gone: sync.OnceFunc(all.Done)}
	}
	return &visitor{Conn: c, gone: sync.OnceFunc(all.Done)}
}

type tcpVisitor struct {
	*tcp.Conn
	gone func()
}

func (v *tcpVisitor) Close() error {
	defer v.gone()
	return v.Conn.Close()
}

type visitor struct {
	net.Conn
	gone func()
}

func (v *visitor) Close() error {
	defer v.gone()
	return v.Conn.Close()
}
