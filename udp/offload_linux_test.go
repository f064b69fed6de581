//go:build !haul_portable

package udp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// split returns m's datagrams as text.
func split(m Message) []string {
	var s []string
	for d := range m.Datagrams() {
		s = append(s, string(d))
	}
	return s
}

// spy counts the messages that c passes to the kernel, and may answer for the kernel.
func spy(c *Conn, answer func(h *header) syscall.Errno) *int {
	calls := new(int)
	c.out.kernel = func(fd uintptr, headers []header) (int, syscall.Errno) {
		for i := range headers {
			*calls++
			if errno := answer(&headers[i]); errno != 0 {
				if i > 0 {
					return sendBatch(fd, headers[:i])
				}
				return 0, errno
			}
		}
		return sendBatch(fd, headers)
	}
	return calls
}

func agree(*header) syscall.Errno { return 0 }

// refuse returns a function for spy that answers like a kernel which cannot cut up messages.
func refuse(errno syscall.Errno) func(*header) syscall.Errno {
	return func(h *header) syscall.Errno {
		if h.Controllen > 0 {
			return errno
		}
		return 0
	}
}

// A message is passed to the kernel in one piece, and received in one piece.
func TestCutAndGlue(t *testing.T) { bothWays(t, testCutAndGlue) }

func testCutAndGlue(t *testing.T, config Config) {
	server, client := listen(t, loopback4, config), listen(t, loopback4, config)
	if client.Limits().Segments == 1 || server.Limits().Datagram == 1 {
		t.Skip("this kernel has no offloads")
	}
	calls := spy(client, agree)
	m := Message{Peer: server.LocalAddr(), Data: pattern(44 * 1432), Segment: 1432}
	write(t, client, m)
	if *calls != 1 {
		t.Errorf("a segmented message took %d pieces", *calls)
	}
	ms := buffers(2)
	n, err := server.Read(ms, time.Now().Add(patience))
	if n != 1 || err != nil || ms[0].Segment != 1432 || !slices.Equal(split(ms[0]), split(m)) {
		t.Errorf("Read = %d messages of %d bytes by %d, %v", n, len(ms[0].Data), ms[0].Segment, err)
	}
}

// A device that cannot cut is tried once, and the message is still delivered.
func TestDeviceRefuses(t *testing.T) { bothWays(t, testDeviceRefuses) }

func testDeviceRefuses(t *testing.T, config Config) {
	server, client := listen(t, loopback4, config), listen(t, loopback4, config)
	spy(client, refuse(unix.EIO))
	m := Message{Peer: server.LocalAddr(), Data: pattern(100 * 30), Segment: 30}
	one := Message{Peer: server.LocalAddr(), Data: []byte("one")}
	write(t, client, one, m, one)
	want := slices.Concat([]string{"one"}, split(m), []string{"one"})
	if all := texts(read(t, server, len(want))); !slices.Equal(all, want) {
		t.Error("datagrams came changed")
	}
	if n := client.Limits().Segments; n != 1 {
		t.Errorf("Limits().Segments = %d afterwards", n)
	}
	calls := spy(client, refuse(unix.EIO))
	write(t, client, m)
	if *calls != 100 {
		t.Errorf("the kernel was given %d pieces, want 100 datagrams", *calls)
	}
	read(t, server, 100)
}

// If the path is too narrow for a segment, the device does not count as unable to cut messages.
func TestPathRefuses(t *testing.T) { bothWays(t, testPathRefuses) }

func testPathRefuses(t *testing.T, config Config) {
	for _, errno := range []syscall.Errno{unix.EINVAL, unix.EMSGSIZE} {
		server, client := listen(t, loopback4, config), listen(t, loopback4, config)
		before := client.Limits()
		spy(client, refuse(errno))
		m := Message{Peer: server.LocalAddr(), Data: pattern(100 * 30), Segment: 30}
		write(t, client, m)
		if all := texts(read(t, server, 100)); !slices.Equal(all, split(m)) {
			t.Errorf("%v: datagrams came changed", errno)
		}
		if client.Limits() != before {
			t.Errorf("%v: limits fell to %+v", errno, client.Limits())
		}
	}
}

// If the datagrams of a message cannot be sent one by one either, Write returns an error for that
// message only.
func TestRefusedForGood(t *testing.T) { bothWays(t, testRefusedForGood) }

func testRefusedForGood(t *testing.T, config Config) {
	server, client := listen(t, loopback4, config), listen(t, loopback4, config)
	spy(client, func(h *header) syscall.Errno {
		if h.Iov.Len == 30 || h.Controllen > 0 {
			return unix.EPERM
		}
		return 0
	})
	one := Message{Peer: server.LocalAddr(), Data: []byte("one")}
	n, err := client.Write([]Message{one, {Peer: one.Peer, Data: pattern(90), Segment: 30}, one})
	if n != 1 || !errors.Is(err, unix.EPERM) {
		t.Errorf("Write = %d, %v", n, err)
	}
	read(t, server, 1)
}

// If the buffer stays full, only the first Write waits. Once the buffer has room again, a Write may
// wait again.
func TestStall(t *testing.T) { bothWays(t, testStall) }

func testStall(t *testing.T, config Config) {
	server, client := listen(t, loopback4, config), listen(t, loopback4, config)
	m := Message{Peer: server.LocalAddr(), Data: []byte("x")}
	full := unix.EAGAIN
	calls := spy(client, func(*header) syscall.Errno { return full })
	begun := time.Now()
	for range 100 { // if each Write waited, the test would take 10 s
		if n, err := client.Write([]Message{m, m}); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	if time.Since(begun) < maxStall {
		t.Error("Write did not wait for room")
	}
	if *calls > 110 { // the kernel may report room to the first Write although its buffer is full
		t.Errorf("the kernel was asked %d times", *calls)
	}
	if client.out.stalled != true {
		t.Error("Write would wait again")
	}
	full = 0
	write(t, client, m)
	read(t, server, 1)
	if client.out.stalled {
		t.Error("Write would not wait again")
	}
}

// A Write uses room that becomes available while it waits.
func TestStallEnds(t *testing.T) { bothWays(t, testStallEnds) }

func testStallEnds(t *testing.T, config Config) {
	c := listen(t, loopback4, config)
	asked := 0
	c.out.kernel = func(fd uintptr, headers []header) (int, syscall.Errno) {
		if asked++; asked == 1 {
			// The next call makes the socket writable again, as if the buffer had room.
			if n, errno := sendBatch(fd, headers[:1]); n != 1 {
				t.Errorf("sendBatch: %v", errno)
			}
			return 0, unix.EAGAIN
		}
		return sendBatch(fd, headers)
	}
	write(t, c, Message{Peer: c.LocalAddr(), Data: []byte("x")})
	read(t, c, 2)
	write(t, c, Message{Peer: c.LocalAddr(), Data: []byte("x")}) // succeeds, because no deadline is left over
	read(t, c, 1)
}

// Each datagram is returned with the address of ours to which it was sent, and an answer is sent
// from that address. This holds for IPv4 and IPv6 sockets.
func TestLocal(t *testing.T) { bothWays(t, testLocal) }

func testLocal(t *testing.T, config Config) {
	for _, tt := range []struct {
		name string
		on   netip.Addr
		to   []string
	}{
		{"v4", netip.IPv4Unspecified(), []string{"127.0.0.1", "127.0.0.2", "127.1.2.3"}},
		{"v6", netip.IPv6Unspecified(), []string{"::1"}},
		{"both", netip.Addr{}, []string{"127.0.0.1", "127.0.0.2", "::1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := listen(t, tt.on, config)
			for _, s := range tt.to {
				to := netip.AddrPortFrom(netip.MustParseAddr(s), server.LocalAddr().Port())
				if to.Addr().Is6() && !haveIPv6() {
					continue
				}
				client := listen(t, netip.Addr{}, config)
				write(t, client, Message{Peer: to, Data: pattern(30), Segment: 10})
				for _, g := range read(t, server, 3) {
					if g.local != to.Addr() {
						t.Errorf("sent to %v, reached %v", to.Addr(), g.local)
					}
					write(t, server, Message{Peer: g.peer, Local: g.local, Data: pattern(20), Segment: 10})
				}
				for _, g := range read(t, client, 6) {
					if g.peer != to {
						t.Errorf("sent to %v, answered from %v", to, g.peer)
					}
				}
			}
		})
	}
}

// A datagram to a broadcast address is received, but that address cannot be the source of an
// answer.
func TestLocalOfBroadcast(t *testing.T) { bothWays(t, testLocalOfBroadcast) }

func testLocalOfBroadcast(t *testing.T, config Config) {
	for _, on := range []netip.Addr{netip.IPv4Unspecified(), {}} {
		server, client := listen(t, on, config), listen(t, loopback4, config)
		to := netip.AddrPortFrom(netip.MustParseAddr("127.255.255.255"), server.LocalAddr().Port())
		if _, err := client.Write([]Message{{Peer: to, Data: []byte("x")}}); err != nil {
			t.Skip(err)
		}
		if g := read(t, server, 1)[0]; g.local != loopback4 {
			t.Errorf("a broadcast reached %v, want %v", g.local, loopback4)
		}
	}
}

// If a message has a local address that is not ours, Write returns an error for that message.
func TestLocalForeign(t *testing.T) { bothWays(t, testLocalForeign) }

func testLocalForeign(t *testing.T, config Config) {
	for _, on := range []netip.Addr{netip.IPv4Unspecified(), {}} {
		c := listen(t, on, config)
		to := netip.AddrPortFrom(loopback4, c.LocalAddr().Port())
		n, err := c.Write([]Message{{Peer: to, Local: netip.MustParseAddr("192.0.2.99"), Data: []byte("x")}})
		if n != 0 || err == nil {
			t.Errorf("from a foreign address: %d, %v", n, err)
		}
	}
}

func TestRefusals(t *testing.T) { bothWays(t, testRefusals) }

func testRefusals(t *testing.T, config Config) {
	for _, on := range []netip.Addr{loopback4, loopback6, {}} {
		t.Run(fmt.Sprint(on), func(t *testing.T) {
			client := listen(t, on, refusing(config))
			at := on
			if !at.IsValid() {
				at = loopback4
			}
			live, dead := listen(t, at, config), listen(t, at, config)
			nobody := dead.LocalAddr()
			dead.Close()
			for range 3 {
				// The refusal of the first message is pending when the second one is sent.
				write(t, client, Message{Peer: nobody, Data: []byte("x")}, Message{Peer: nobody})
				write(t, client, Message{Peer: live.LocalAddr(), Data: []byte("x")})
				for refused := false; !refused; {
					n, err := client.Read(buffers(1), time.Now().Add(patience))
					refused = errors.Is(err, syscall.ECONNREFUSED)
					if n != 0 || err != nil && !refused {
						t.Fatalf("Read = %d, %v", n, err)
					}
					if op := new(net.OpError); refused && (!errors.As(err, &op) || op.Addr.String() != nobody.String()) {
						t.Errorf("%v does not name %v", err, nobody)
					}
				}
				read(t, live, 1)
				write(t, live, Message{Peer: netip.AddrPortFrom(at, client.LocalAddr().Port()), Data: []byte("y")})
				for answered := false; !answered; { // the answer may be received after one more refusal
					n, err := client.Read(buffers(1), time.Now().Add(patience))
					if err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
						t.Fatal(err)
					}
					answered = n == 1
				}
			}
		})
	}
}

// A peer's last datagrams are read before the report that the peer is gone.
func TestRefusalIsLast(t *testing.T) { bothWays(t, testRefusalIsLast) }

func testRefusalIsLast(t *testing.T, config Config) {
	for sends := 1; sends <= 2; sends++ { // the second send finds the refusal of the first
		client, peer := listen(t, loopback4, refusing(config)), listen(t, loopback4, config)
		write(t, client, Message{Peer: peer.LocalAddr(), Data: []byte("x")})
		read(t, peer, 1)
		write(t, peer, Message{Peer: client.LocalAddr(), Data: []byte("last")})
		peer.Close()
		for range sends {
			write(t, client, Message{Peer: peer.LocalAddr(), Data: []byte("x")})
		}
		ms := buffers(1)
		var n int
		var err error
		for n == 0 && err == nil { // Write may have woken it
			n, err = client.Read(ms, time.Now().Add(patience))
		}
		if n != 1 || err != nil || string(ms[0].Data) != "last" {
			t.Fatalf("%d sends: the first Read = %d, %v", sends, n, err)
		}
		for n, err = 0, nil; n == 0 && err == nil; {
			n, err = client.Read(ms, time.Now().Add(patience))
		}
		if n != 0 || !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%d sends: the second Read = %d, %v", sends, n, err)
		}
	}
}

// A refusal wakes a Read that is already waiting.
func TestRefusalWakes(t *testing.T) { bothWays(t, testRefusalWakes) }

func testRefusalWakes(t *testing.T, config Config) {
	client, dead := listen(t, loopback4, refusing(config)), listen(t, loopback4, config)
	dead.Close()
	done := reading(client, time.Time{})
	for range 3 {
		write(t, client, Message{Peer: dead.LocalAddr(), Data: []byte("x")})
	}
	r := returned(t, done)
	for r == (result{}) { // woken because Write found the refusal first
		r.n, r.err = client.Read(buffers(1), time.Now().Add(patience))
	}
	if !errors.Is(r.err, syscall.ECONNREFUSED) {
		t.Errorf("Read = %d, %v", r.n, r.err)
	}
}

// Without Config.Refusals, no refusals are reported.
func TestNoRefusals(t *testing.T) { bothWays(t, testNoRefusals) }

func testNoRefusals(t *testing.T, config Config) {
	client, dead := listen(t, loopback4, config), listen(t, loopback4, config)
	dead.Close()
	for range 10 {
		write(t, client, Message{Peer: dead.LocalAddr(), Data: []byte("x")})
	}
	write(t, client, Message{Peer: client.LocalAddr(), Data: []byte("end")})
	if g := read(t, client, 1)[0]; g.data != "end" {
		t.Errorf("received %q", g.data)
	}
}
