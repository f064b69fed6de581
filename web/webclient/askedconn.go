package webclient

import (
	"context"
	"io"
	"net"
	"sync"
)

// A dialer is the DialContext of a transport.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// asked returns a dialer whose connections are not read before something was written. Some servers,
// such as SSH, send a line before they get a request. With this dialer, that line is read as the
// answer, and the error shows it. Otherwise package http closes the connection if the line arrives
// before the request is sent, and does not give the reason.
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

// An askedConn is a connection for one transport, which sets no deadlines.
type askedConn struct {
	net.Conn
	asked chan struct{} // closed by ask
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
