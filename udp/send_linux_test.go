//go:build !haul_portable

package udp

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A node is a network namespace without a name. It exists as long as the thread of one goroutine,
// and the sockets that were opened in it.
type node struct {
	tid    int
	orders chan func() // functions for the thread to call; closed at the end
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{orders: make(chan func())}
	ready := make(chan error)
	go func() {
		// The thread is never unlocked, so it ends with the goroutine.
		runtime.LockOSThread()
		n.tid = unix.Gettid()
		ready <- unix.Unshare(unix.CLONE_NEWNET)
		for f := range n.orders {
			f()
		}
	}()
	t.Cleanup(func() { close(n.orders) })
	if err := <-ready; err != nil {
		absent(t, "no network namespace: %v", err)
	}
	return n
}

// absent ends a test because the system lacks something that the test needs. That is a failure only
// in CI.
func absent(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("absent in CI: "+format, args...)
	}
	t.Skipf(format, args...)
}

// do calls f on the node's thread.
func (n *node) do(f func()) {
	done := make(chan struct{})
	n.orders <- func() {
		defer close(done)
		f()
	}
	<-done
}

// ip configures the node. Each line is a command of the program ip.
func (n *node) ip(t *testing.T, lines ...string) {
	t.Helper()
	path, err := exec.LookPath("ip")
	if err != nil {
		absent(t, "%v (package iproute2)", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	var out []byte
	n.do(func() { out, err = cmd.CombinedOutput() })
	if err != nil {
		t.Fatalf("ip -batch: %v\n%s\n%s", err, strings.Join(lines, "\n"), out)
	}
}

// listen opens a socket on the node.
func (n *node) listen(t *testing.T, addr string, c Config) *Conn {
	t.Helper()
	var at netip.Addr
	if addr != "" {
		at = netip.MustParseAddr(addr)
	}
	var conn *Conn
	var err error
	n.do(func() { conn, err = Listen(t.Context(), netip.AddrPortFrom(at, 0), c) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// A cable connects two nodes. It carries packets of at most 1500 bytes.
type cable struct {
	here, there *node
	wire        int // a packet socket at the far end, which receives a copy of each packet
}

const (
	hereIP, thereIP   = "10.69.0.1", "10.69.0.2"
	hereIP6, thereIP6 = "fd69::1", "fd69::2"
	nobodyIP          = "10.69.0.3"
)

func newCable(t *testing.T) *cable {
	t.Helper()
	if os.Geteuid() != 0 {
		absent(t, "a network namespace needs root")
	}
	c := &cable{here: newNode(t), there: newNode(t)}
	c.here.ip(t, fmt.Sprintf("link add name eth0 mtu 1500 type veth peer name eth0 mtu 1500 netns /proc/%d/task/%d/ns/net", os.Getpid(), c.there.tid))
	up := func(n *node, ip, ip6 string) {
		n.ip(t, "link set lo up", "link set eth0 up", "addr add "+ip+"/24 dev eth0", "addr add "+ip6+"/64 dev eth0 nodad")
	}
	up(c.here, hereIP, hereIP6)
	up(c.there, thereIP, thereIP6)
	var err error
	c.there.do(func() { c.wire, err = openWire() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(c.wire) })
	return c
}

// openWire opens a socket that gets a copy of every packet.
func openWire() (int, error) {
	all := binary.NativeEndian.Uint16([]byte{0, unix.ETH_P_ALL}) // in network byte order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(all))
	if err != nil {
		return 0, err
	}
	return fd, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20)
}

// A sighting counts the IPv4 packets with UDP that the wire has received since the last call of
// seen.
type sighting struct {
	whole     int // packets that no router may fragment
	loose     int // packets that a router may fragment, but that are not fragments
	fragments int
}

// seen reads the packets that arrived over the wire. They include the packets that a socket at the
// far end has received.
func (c *cable) seen(t *testing.T) (s sighting) {
	t.Helper()
	const mayNotCut, more, offset = 0x4000, 0x2000, 0x1fff // RFC 791 §3.1
	for b := make([]byte, 1<<16); ; {
		n, from, err := unix.Recvfrom(c.wire, b, 0)
		if err == unix.EAGAIN {
			return s
		}
		if err != nil {
			t.Fatal(err)
		}
		if link := from.(*unix.SockaddrLinklayer); link.Pkttype != unix.PACKET_HOST || n < 20 || b[0]>>4 != 4 || b[9] != unix.IPPROTO_UDP {
			continue
		}
		switch flags := binary.BigEndian.Uint16(b[6:]); {
		case flags&(more|offset) != 0:
			s.fragments++
		case flags&mayNotCut != 0:
			s.whole++
		default:
			s.loose++
		}
	}
}

// Datagrams that fit the path are sent in packets that no router may fragment. Longer datagrams are
// sent in fragments, alone or together with others, in any kind of message.
func TestFragments(t *testing.T) {
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			c := newCable(t)
			for _, at := range []string{"", hereIP} {
				for _, long := range [][]Message{
					{{Data: pattern(1473)}},
					{{Data: pattern(65507)}},
					{{Data: pattern(5 * 3000), Segment: 3000}},
					{{Data: pattern(3*1473 + 1), Segment: 1473}, {Data: pattern(1473)}},
				} {
					t.Run(fmt.Sprintf("on %s/%d by %d", at, len(long[0].Data), long[0].Segment), func(t *testing.T) {
						from, to := c.here.listen(t, at, config), c.there.listen(t, thereIP, Config{})
						bounded(t, from)
						sendLong(t, c, from, to, long)
					})
				}
			}
		})
	}
}

// bounded ends a Write that calls the kernel again and again.
func bounded(t *testing.T, c *Conn) {
	const most = 1000
	calls := 0
	c.out.kernel = func(fd uintptr, headers []header) (int, syscall.Errno) {
		if calls++; calls >= most {
			if calls == most {
				t.Errorf("the kernel was asked %d times", calls)
			}
			return 0, unix.EPERM
		}
		return sendBatch(fd, headers)
	}
}

func sendLong(t *testing.T, c *cable, from, to *Conn, long []Message) {
	peer := to.LocalAddr()
	short := []Message{{Peer: peer, Data: pattern(1472)}, {Peer: peer, Data: pattern(4*1472 + 1), Segment: 1472}, {Peer: peer}}
	for i := range long {
		long[i].Peer = peer
	}
	strict := true
	send := func(what string, fragments bool, ms ...Message) {
		t.Helper()
		c.seen(t)
		write(t, from, ms...)
		var want []string
		for _, m := range ms {
			want = append(want, split(m)...)
		}
		if all := texts(read(t, to, len(want))); !slices.Equal(all, want) {
			t.Errorf("%s: came changed", what)
		}
		if s := c.seen(t); (s.fragments > 0) != fragments || strict && s.loose != 0 {
			t.Errorf("%s: %+v", what, s)
		}
	}
	send("short ones", false, short...)
	// Once the socket may send fragments, the kernel allows routers to fragment messages that it
	// cuts up itself, because it takes the sum of the segments for the length.
	strict = from.Limits().Segments == 1
	send("long ones between short ones", true, slices.Concat(short, long, short)...)
	send("short ones afterwards", false, short...)
	send("long ones again", true, long...)
}

// IPv6 has its own rules for fragments, but the results are the same.
func TestFragments6(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for name, config := range configs {
		for _, at := range []string{"", hereIP6} {
			t.Run(name+"/on "+at, func(t *testing.T) {
				c := newCable(t)
				from, to := c.here.listen(t, at, config), c.there.listen(t, thereIP6, Config{})
				bounded(t, from)
				ms := []Message{
					{Peer: to.LocalAddr(), Data: pattern(1452)}, {Peer: to.LocalAddr(), Data: pattern(3000)},
					{Peer: to.LocalAddr(), Data: pattern(4*1453 + 7), Segment: 1453}, {Peer: to.LocalAddr(), Data: pattern(5 * 1452), Segment: 1452},
				}
				var want []string
				for _, m := range ms {
					want = append(want, split(m)...)
				}
				for range 2 {
					write(t, from, ms...)
					if all := texts(read(t, to, len(want))); !slices.Equal(all, want) {
						t.Error("came changed")
					}
				}
			})
		}
	}
}

// A path may become narrower while packets flow.
func TestFragmentsOfNarrowPath(t *testing.T) {
	for name, config := range configs {
		t.Run(name, func(t *testing.T) {
			c := newCable(t)
			from, to := c.here.listen(t, hereIP, config), c.there.listen(t, thereIP, Config{})
			bounded(t, from)
			m := Message{Peer: to.LocalAddr(), Data: pattern(20 * 1400), Segment: 1400}
			for _, mtu := range []int{1500, 1000, 600} {
				c.here.ip(t, fmt.Sprintf("route replace %s/32 dev eth0 src %s mtu %d", thereIP, hereIP, mtu))
				c.seen(t)
				write(t, from, m)
				if all := texts(read(t, to, 20)); !slices.Equal(all, split(m)) {
					t.Errorf("MTU %d: came changed", mtu)
				}
				if s := c.seen(t); (s.fragments > 0) != (mtu < 1500) {
					t.Errorf("MTU %d: %+v", mtu, s)
				}
			}
		})
	}
}

// A datagram that is longer than any packet causes an error at once, and only for its own message.
func TestTooLongForAnyPacket(t *testing.T) {
	for name, config := range configs {
		for _, size := range []int{65508, 65516, 65535} {
			t.Run(fmt.Sprint(name, "/", size), func(t *testing.T) {
				server, client := listen(t, loopback4, Config{}), listen(t, loopback4, config)
				bounded(t, client)
				one := Message{Peer: server.LocalAddr(), Data: []byte("one")}
				for range 2 {
					n, err := client.Write([]Message{one, {Peer: one.Peer, Data: make([]byte, size)}, one})
					if n != 1 || !errors.Is(err, unix.EMSGSIZE) {
						t.Errorf("Write = %d, %v", n, err)
					}
					write(t, client, one)
					read(t, server, 2)
				}
			})
		}
	}
}

// stallBy fills a socket's buffer with packets for a host that does not exist. They wait for an
// answer to the ARP request.
func stallBy(t *testing.T, config Config) (*Conn, []Message) {
	t.Helper()
	c := newCable(t)
	config.Buffer = 8 << 10
	return c.here.listen(t, hereIP, config), []Message{{Peer: netip.MustParseAddrPort(nobodyIP + ":9"), Data: make([]byte, 1000)}}
}

// A Write that finds the kernel's buffer full waits without calling the kernel again and again, and
// gives up in the end.
func TestStallOfKernel(t *testing.T) { bothWays(t, testStallOfKernel) }

func testStallOfKernel(t *testing.T, config Config) {
	conn, ms := stallBy(t, config)
	calls := spy(conn, agree)
	for i := 1; ; i++ {
		begun := time.Now()
		n, err := conn.Write(ms)
		if err == nil {
			if i > 1000 {
				t.Skip("this kernel's buffer does not fill")
			}
			continue
		}
		if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) < maxStall {
			t.Errorf("Write = %d, %v after %v", n, err, time.Since(begun))
		}
		if *calls > 2*i+10 {
			t.Errorf("%d messages: the kernel was asked %d times", i, *calls)
		}
		return
	}
}

// Close ends a Write that waits for room.
func TestStallClosed(t *testing.T) { bothWays(t, testStallClosed) }

func testStallClosed(t *testing.T, config Config) {
	conn, ms := stallBy(t, config)
	waits := make(chan struct{}, 1000)
	conn.out.kernel = func(fd uintptr, headers []header) (int, syscall.Errno) {
		n, errno := sendBatch(fd, headers)
		if errno == unix.EAGAIN {
			waits <- struct{}{}
		}
		return n, errno
	}
	done := make(chan error, 1)
	go func() {
		for range 1000 {
			if _, err := conn.Write(ms); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	select {
	case <-waits:
	case err := <-done:
		t.Skip("this kernel's buffer does not fill: ", err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-done:
		if !errors.Is(err, net.ErrClosed) && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("Write still waits")
	}
}

// refusing returns c with Refusals set.
func refusing(c Config) Config {
	c.Refusals = true
	return c
}
