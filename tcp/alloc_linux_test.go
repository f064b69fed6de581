//go:build linux && !haul_portable

package tcp

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A request does not allocate, and neither does a connection that never waits, except for its
// share of the handles that are allocated together.
func TestAllocations(t *testing.T) {
	s := &Server{Options: Options{Sockets: 1, ClientFirst: 5e9}, Handle: func(_ context.Context, c net.Conn) {
		h := c.(*Conn)
		b := copyBuffers.Get().(*[copySize]byte)
		defer copyBuffers.Put(b)
		for {
			n, err := h.Read(b[:])
			if err != nil {
				return
			}
			if _, err := h.Write(b[:n]); err != nil || n < 64 {
				return
			}
			if b[0] == 1 { // the client wants one answer, and then the connection to end
				return
			}
		}
	}}
	at, _ := serve(t, s)
	c := newBare(t, at)
	c.connect(t)
	if n := testing.AllocsPerRun(300, func() { c.ask(t) }); n >= 1 {
		t.Errorf("a request allocates %v times", n)
	}
	c.close()
	c.b[0] = 1
	if n := testing.AllocsPerRun(300, func() {
		c.connect(t)
		c.ask(t)
		for { // until the server closes the connection, so that one goroutine serves all connections
			if n, err := unix.Read(c.fd, c.b[1:]); n == 0 || err != nil && !errors.Is(err, unix.EINTR) {
				break
			}
		}
		c.close()
	}); n >= 1 {
		t.Errorf("a connection allocates %v times", n)
	}
}

// Connections inherit the options of the listening socket, which are not set again.
func TestOptionsAreInherited(t *testing.T) {
	ours, _ := pair(t, Options{Congestion: "reno", SendBuffer: 1 << 15, KeepAlive: &net.KeepAliveConfig{Enable: true, Idle: 7e9, Interval: 3e9, Count: 2}})
	get := func(level, name int) (v int) {
		raw, err := ours.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) { v, err = unix.GetsockoptInt(int(fd), level, name) })
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, o := range []struct {
		name              string
		level, opt, value int
	}{
		{"TCP_NODELAY", unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{"TCP_KEEPIDLE", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 7},
		{"TCP_KEEPINTVL", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 3},
		{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 2},
		{"SO_SNDBUF", unix.SOL_SOCKET, unix.SO_SNDBUF, 1 << 16}, // the kernel doubles the value
	} {
		if got := get(o.level, o.opt); got != o.value {
			t.Errorf("%s is %d, not %d", o.name, got, o.value)
		}
	}
	raw, _ := ours.SyscallConn()
	_ = raw.Control(func(fd uintptr) {
		if s, err := unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION); s != "reno" || err != nil {
			t.Errorf("TCP_CONGESTION is %q, %v", s, err)
		}
	})
	for _, name := range []string{"nonesuch", "reno" + strings.Repeat("x", maxCongestion)} {
		_, err := Listen(t.Context(), "127.0.0.1:0", Options{Congestion: name})
		refused, ok := errors.AsType[*CongestionError](err)
		if !ok || refused.Name != name || !slices.Contains(refused.Has, "reno") || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a congestion control that there is not, %q: %v", name, err)
		}
	}
	slow, _ := pair(t, Options{Nagle: true, KeepAlive: &net.KeepAliveConfig{}})
	ours = slow
	if get(unix.IPPROTO_TCP, unix.TCP_NODELAY) != 0 || get(unix.SOL_SOCKET, unix.SO_KEEPALIVE) != 0 {
		t.Error("options that are off are on")
	}
}

// Options of listening sockets are set on each socket that shares the address.
func TestOptionsOfListening(t *testing.T) {
	const sockets, backlog, fastOpen = 3, 77, 16
	s := listenSocket(t, Options{Sockets: sockets, Backlog: backlog, FastOpen: fastOpen, ClientFirst: 5e9})
	defer s.Close()
	if len(s.kernels) != sockets {
		t.Fatalf("%d sockets, not %d", len(s.kernels), sockets)
	}
	for _, k := range s.kernels {
		for _, o := range []struct {
			name                      string
			level, opt, least, atMost int
		}{
			{"SO_REUSEPORT", unix.SOL_SOCKET, unix.SO_REUSEPORT, 1, 1},
			{"TCP_FASTOPEN", unix.IPPROTO_TCP, unix.TCP_FASTOPEN, fastOpen, fastOpen},
			{"TCP_DEFER_ACCEPT", unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 5, 10}, // the kernel counts in SYN-ACKs
		} {
			if got, err := unix.GetsockoptInt(k.fd, o.level, o.opt); err != nil || got < o.least || got > o.atMost {
				t.Errorf("%s is %d, %v; want %d to %d", o.name, got, err, o.least, o.atMost)
			}
		}
		// For a listening socket this is the backlog: see tcp_get_info in the kernel.
		if info, err := unix.GetsockoptTCPInfo(k.fd, unix.IPPROTO_TCP, unix.TCP_INFO); err != nil || info.Sacked != backlog {
			t.Errorf("%v: the backlog is not %d but %+v", err, backlog, info)
		}
	}
}
