//go:build linux

package tcp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkConnections and BenchmarkRequests measure a request of 64 bytes with an answer of the same
// size: with a new connection for each request, and over a connection that stays open. They compare
// this package with package net and a goroutine for each connection. Both figures include the
// client's work, which is the larger part.
func BenchmarkConnections(b *testing.B) {
	benchmark(b, func(b *testing.B, c *bare) {
		for b.Loop() {
			c.connect(b)
			c.ask(b)
			c.close()
		}
	})
}

func BenchmarkRequests(b *testing.B) {
	benchmark(b, func(b *testing.B, c *bare) {
		c.connect(b)
		defer c.close()
		for b.Loop() {
			c.ask(b)
		}
	})
}

func benchmark(b *testing.B, run func(*testing.B, *bare)) {
	answer := func(c net.Conn) {
		buf := make([]byte, 64)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			if _, err := c.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	b.Run("haul", func(b *testing.B) {
		ctx, cancel := context.WithCancel(b.Context())
		so, err := Listen(ctx, "127.0.0.1:0", Options{ClientFirst: 5e9})
		if err != nil {
			b.Fatal(err)
		}
		s := &Server{Handle: func(_ context.Context, c net.Conn) { answer(c) }}
		done := make(chan error)
		go func() { done <- s.Serve(ctx, so) }()
		run(b, newBare(b, so.Addr().String()))
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	b.Run("net", func(b *testing.B) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		defer l.Close()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					answer(c)
				}()
			}
		}()
		run(b, newBare(b, l.Addr().String()))
	})
}

// A bare is a client that allocates nothing.
type bare struct {
	fd int
	at unix.SockaddrInet4
	b  [64]byte
}

func newBare(t testing.TB, addr string) *bare {
	t.Helper()
	a, err := netip.ParseAddrPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return &bare{at: unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}}
}

func (c *bare) connect(t testing.TB) {
	var err error
	if c.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
		err = unix.Connect(c.fd, &c.at)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (c *bare) ask(t testing.TB) {
	if _, err := unix.Write(c.fd, c.b[:]); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(c.b); {
		m, err := unix.Read(c.fd, c.b[n:])
		if err != nil && !errors.Is(err, unix.EINTR) || m == 0 {
			t.Fatal(m, err)
		}
		n += max(m, 0)
	}
}

func (c *bare) close() { _ = unix.Close(c.fd) }
