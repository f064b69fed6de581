package sftp

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/sshconn"
)

// A tunedConn records the options that are set on a connection.
type tunedConn struct {
	*wireEnd
	noDelay             bool
	writeBuffer, others int
}

func (c *tunedConn) SetNoDelay(on bool) error        { c.noDelay = on; return nil }
func (c *tunedConn) SetWriteBuffer(n int) error      { c.writeBuffer = n; return nil }
func (c *tunedConn) SetReadBuffer(int) error         { c.others++; return nil }
func (c *tunedConn) SetLinger(int) error             { c.others++; return nil }
func (c *tunedConn) SetReadDeadline(time.Time) error { c.others++; return nil }

// The kernel may buffer much output. The receive buffer is left to the kernel.
func TestSocket(t *testing.T) {
	w := newTestServer(t, nil)
	client, server := newWires("192.0.2.1")
	tuned := &tunedConn{wireEnd: server}
	w.conns.Go(func() { w.server.ServeConn(w.ctx, tuned) })
	c, err := w.dial(client, w.clientConfig())
	if err != nil {
		t.Fatal(err)
	}
	w.sftp(c)
	c.Close()
	w.last(1)
	if !tuned.noDelay || tuned.writeBuffer != sshconn.LargestSend() || tuned.others != 0 {
		t.Errorf("set: %+v", tuned)
	}
}

// TestLoopback uses a real socket, and a listener of package net.
func TestLoopback(t *testing.T) {
	w := newTestServer(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.server.Serve(ctx, l) }()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.dial(nc, w.clientConfig())
	if err != nil {
		t.Fatal(err)
	}
	p := w.sftp(c)
	data := testBytes(maxData)
	p.put("file", data)
	p.wantFile("file", data)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("somebody still listens")
	}
}
