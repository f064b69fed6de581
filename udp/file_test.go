//go:build unix

package udp

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// bound returns the file of a socket bound by package net, without our options.
func bound(t *testing.T, network, address string) *os.File {
	t.Helper()
	if strings.Contains(address, ":") && network != "udp4" && !haveIPv6() {
		t.Skip("this host has no IPv6")
	}
	c, err := net.ListenPacket(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return fileOf(t, c)
}

// fileOf returns the file of any kind of socket.
func fileOf(t *testing.T, socket any) *os.File {
	t.Helper()
	f, err := socket.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func fromBound(t *testing.T, f *os.File, c Config) *Conn {
	t.Helper()
	conn, err := FromFile(f, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// An adopted socket is like any other, and returns the datagrams that arrived before.
func TestFromFile(t *testing.T) {
	for name, config := range configs {
		for _, tt := range []struct {
			name, network, address string
			from                   netip.Addr
		}{
			{"v4", "udp4", "127.0.0.1:0", loopback4},
			{"v6", "udp6", "[::1]:0", loopback6},
			{"every v4", "udp4", "0.0.0.0:0", loopback4},
			{"both with v4 peer", "udp", ":0", loopback4},
			{"both with v6 peer", "udp", ":0", loopback6},
		} {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				f := bound(t, tt.network, tt.address)
				port := portOf(t, f)
				at := netip.AddrPortFrom(tt.from, port)
				client := listen(t, tt.from, config)
				// This is the request for which systemd starts the server.
				write(t, client, Message{Peer: at, Data: []byte("early")})
				server := fromBound(t, f, config)
				f.Close()
				if got := server.LocalAddr().Port(); got != port {
					t.Errorf("LocalAddr has port %d, want %d", got, port)
				}
				if got := server.LocalAddr().Addr().Unmap(); got.Is4() != (tt.network == "udp4") {
					t.Errorf("LocalAddr is %v for %s", got, tt.network)
				}
				write(t, client, Message{Peer: at, Data: []byte("late")})
				all := read(t, server, 2)
				if !slices.Equal(texts(all), []string{"early", "late"}) {
					t.Errorf("received %q", texts(all))
				}
				for _, g := range all {
					if g.peer != client.LocalAddr() {
						t.Errorf("%s from %v, want %v", g.data, g.peer, client.LocalAddr())
					}
					if g.local.IsValid() && g.local != tt.from {
						t.Errorf("%s reached %v, want %v or nothing", g.data, g.local, tt.from)
					}
					write(t, server, Message{Peer: g.peer, Local: g.local, Data: []byte("re " + g.data)})
				}
				if CanSharePort && all[1].local != tt.from {
					t.Errorf("late reached %v, want %v", all[1].local, tt.from)
				}
				if answers := texts(read(t, client, 2)); !slices.Equal(answers, []string{"re early", "re late"}) {
					t.Errorf("answers are %q", answers)
				}
			})
		}
	}
}

// portOf returns the port of a socket, as the kernel reports it.
func portOf(t *testing.T, f *os.File) uint16 {
	t.Helper()
	c, err := net.FilePacketConn(f)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Port()
}

// An adopted socket has the limits of one that Listen opened.
func TestFromFileLimits(t *testing.T) {
	for name, config := range configs {
		got := fromBound(t, bound(t, "udp4", "127.0.0.1:0"), config).Limits()
		if want := listen(t, loopback4, config).Limits(); got != want {
			t.Errorf("%s: limits are %+v, want %+v", name, got, want)
		}
	}
}

// Closing the Conn ends its Read, and leaves the file alone.
func TestFromFileClose(t *testing.T) { bothWays(t, testFromFileClose) }

func testFromFileClose(t *testing.T, config Config) {
	f := bound(t, "udp4", "127.0.0.1:0")
	first := fromBound(t, f, config)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := fromBound(t, f, config)
	write(t, second, Message{Peer: second.LocalAddr(), Data: []byte("to oneself")})
	if got := texts(read(t, second, 1)); got[0] != "to oneself" {
		t.Errorf("received %q", got)
	}
}

// The process that has the file continues where the other process has stopped, and no datagram in
// between is lost.
func TestFile(t *testing.T) {
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			for _, busy := range []bool{false, true} {
				config.Busy = busy
				first := listen(t, loopback4, config)
				client := listen(t, loopback4, Config{})
				say := func(text string) {
					t.Helper()
					write(t, client, Message{Peer: first.LocalAddr(), Data: []byte(text)})
				}
				say("to the first")
				if got := texts(read(t, first, 1)); !slices.Equal(got, []string{"to the first"}) {
					t.Errorf("received %q", got)
				}
				f, err := first.File()
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				say("to any reader")
				if err := first.Close(); err != nil {
					t.Fatal(err)
				}
				say("to the second")
				second := fromBound(t, f, config)
				if second.LocalAddr() != first.LocalAddr() {
					t.Errorf("the second is at %v, the first was at %v", second.LocalAddr(), first.LocalAddr())
				}
				if got := texts(read(t, second, 2)); !slices.Equal(got, []string{"to any reader", "to the second"}) {
					t.Errorf("received %q", got)
				}
				if _, err := first.File(); !errors.Is(err, net.ErrClosed) {
					t.Errorf("a file of a closed socket: %v", err)
				}
			}
		})
	}
}

func TestFromFileErrors(t *testing.T) {
	tcp, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	unixgram, err := net.ListenPacket("unixgram", t.TempDir()+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer unixgram.Close()
	connected, err := net.Dial("udp4", "127.0.0.1:9")
	if err != nil {
		t.Fatal(err)
	}
	defer connected.Close()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	unbound := os.NewFile(uintptr(fd), "unbound")
	defer unbound.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	defer r.Close()

	for _, c := range []struct {
		name string
		file *os.File
		says string
	}{
		{"TCP", fileOf(t, tcp), "not a datagram socket"},
		{"Unix", fileOf(t, unixgram), `network "unixgram", not UDP`},
		{"connected", fileOf(t, connected), "connected to 127.0.0.1:9"},
		{"unbound", unbound, "not bound"},
		{"pipe", r, "not a datagram socket"},
	} {
		conn, err := FromFile(c.file, Config{})
		if err == nil {
			conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.file.Name()) {
			t.Errorf("%s: %v, want an error with %q and %q", c.name, err, c.says, c.file.Name())
		}
	}
	// After a refusal, the file is still open for the caller.
	if _, err := w.WriteString("x"); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(r, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	r.Close()
	if _, err := FromFile(r, Config{}); err == nil {
		t.Error("a closed file was adopted")
	}
}

// Sharing the port of a socket that was bound alone is an error.
func TestFromFileReusePort(t *testing.T) {
	alone := bound(t, "udp4", "127.0.0.1:0")
	conn, err := FromFile(alone, Config{ReusePort: true})
	if err == nil {
		conn.Close()
		t.Fatal("sharing was not refused")
	}
	if !CanSharePort {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%v, want errors.ErrUnsupported", err)
		}
		return
	}
	if !strings.Contains(err.Error(), "ReusePort=yes") {
		t.Errorf("%v does not say what to do", err)
	}
	shared := listen(t, loopback4, Config{ReusePort: true})
	fromBound(t, fileOf(t, shared.socket), Config{ReusePort: true})
}
