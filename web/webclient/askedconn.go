package webclient

import (
	"context"
	"io"
	"net"
	"sync"
)

// A dialer is the DialContext of a transport.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// asked returns a dialer whose connections are read only after something was written to them. Some
// servers, such as SSH servers, send a line before they receive a request. If that line arrives before
// the request is sent, package http closes the connection and does not give the reason. With this
// dialer, http reads the line as the answer, and its error shows the line.
func asked(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := &askedConn{Conn: conn, asked: make(chan struct{})}
		c.ask = sync.OnceFunc(func() { close(c.asked) })
		return c, nil
	}
}

// An askedConn is a connection whose reads wait until something was written. A read that waits for
// that ignores deadlines, but the transport that uses the connection sets none.
type askedConn struct {
	net.Conn
	asked chan struct{} // closed by ask, at the first Write or at Close
	ask   func()
}

func (c *askedConn) Read(p []byte) (int, error) {
	<-c.asked
	return c.Conn.Read(p)
}

func (c *askedConn) Write(p []byte) (int, error) {
	c.ask()
	return c.Conn.Write(p)
}

// ReadFrom leaves the copying of a file to the kernel (sendfile), as package http would.
func (c *askedConn) ReadFrom(r io.Reader) (int64, error) {
	c.ask()
	return io.Copy(c.Conn, r)
}

func (c *askedConn) Close() error {
	c.ask()
	return c.Conn.Close()
}
