//go:build linux

package tcp

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestHalfOpen makes clients vanish without a packet, as after a power failure. The kernel's keep-alive
// probes, or a timeout of the server, end the connection.
func TestHalfOpen(t *testing.T) {
	t.Run("keep-alive", func(t *testing.T) {
		ours, theirs := pair(t, Options{KeepAlive: &net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 1}})
		vanish(t, theirs)
		_ = ours.SetDeadline(time.Now().Add(patience))
		// The client's kernel does not know the connection, and replies with a reset.
		if _, err := ours.Read(make([]byte, 1)); err == nil || err == io.EOF || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the end is %v", err)
		}
	})
	t.Run("idle", func(t *testing.T) {
		ended := make(chan error, 1)
		s := &Server{IdleTimeout: 50 * time.Millisecond, Options: Options{KeepAlive: &net.KeepAliveConfig{}}}
		l := listenFor(t, s)
		defer l.Close()
		theirs := dial(t, l.Addr().String())
		ours, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer ours.Close()
		go func() {
			_, err := ours.Read(make([]byte, 1))
			ended <- err
		}()
		vanish(t, theirs)
		if err := <-ended; !errors.Is(err, ErrIdle) {
			t.Errorf("the end is %v", err)
		}
	})
}

// vanish makes a client disappear without sending a packet.
func vanish(t *testing.T, c *net.TCPConn) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if e := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_REPAIR, 1) }); e != nil {
		t.Fatal(e)
	}
	if errors.Is(err, unix.EPERM) {
		t.Skip("only CAP_NET_ADMIN can have a connection vanish")
	}
	if err != nil {
		t.Fatal("TCP_REPAIR:", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}
