package proxydhcp

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/internal/leak"
)

var loadServer = netip.MustParseAddr("192.0.2.9")

// A crowd is many machines at one socket, and a server with its own sockets, on a network without
// others.
type crowd struct {
	socket *socket
	server *Server
	link   Interface
	served chan struct{} // closed when the server has ended

	mu       sync.Mutex
	reported *sync.Cond
	packets  int // packets that the server has decided about; guarded by mu
	reasons  [pxe.NumReasons]int
	in, out  int // bytes of these packets and of the answers; guarded by mu
}

// newCrowd creates a network namespace for this goroutine alone, and starts the server.
func newCrowd(t testing.TB) *crowd {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a network namespace needs root")
	}
	// The thread is never unlocked, so it ends with its goroutine.
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("no network namespace: %v", err)
	}
	c := &crowd{link: upLoopback(t), served: make(chan struct{})}
	c.reported = sync.NewCond(&c.mu)
	var err error
	c.server, err = New(Config{Rules: pxe.Rules{Files: map[pxe.Arch]string{pxe.BIOS: "undionly.kpxe", pxe.X64: "ipxe.efi"}, HTTPPort: 80}, Report: c.report})
	if err != nil {
		t.Fatal(err)
	}
	c.server.interfaces.list = func() ([]Interface, error) { return []Interface{c.link}, nil }
	if err := c.server.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.socket, err = openSocket(t.Context(), clientPort, false); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.served)
		if err := c.server.Serve(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	return c
}

// upLoopback gives loopback an address that clients can have, and returns the interface.
func upLoopback(t testing.TB) Interface {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	set := func(request uint, value func(*unix.Ifreq) error) {
		r, err := unix.NewIfreq("lo")
		if err == nil {
			err = value(r)
		}
		if err == nil {
			err = unix.IoctlIfreq(fd, request, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	set(unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(loadServer.AsSlice()) })
	set(unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP); return nil })
	return Interface{Name: "lo", Index: 1, Prefixes: []netip.Prefix{netip.PrefixFrom(loadServer, 24)}}
}

func (c *crowd) close() {
	c.socket.close()
	c.server.Close()
	<-c.served
}

// report counts the decisions of the server.
func (c *crowd) report(e Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.packets++
	c.reasons[e.Answer.Reason]++
	c.in, c.out = c.in+len(e.Request), c.out+len(e.Answer.Packet)
	c.reported.Broadcast()
}

func crowdMAC(n int) dhcp.MAC {
	return dhcp.MakeMAC(binary.BigEndian.AppendUint32([]byte{2, 0}, uint32(n)))
}

// discover sends the DISCOVER of machine n, with n as xid.
func (c *crowd) discover(t testing.TB, kind Kind, n int) {
	packet := kind.appendRequest(nil, dhcp.Discover, crowdMAC(n), uint32(n), dhcp.Addr{})
	d := departure{from: loadServer, to: netip.AddrPortFrom(netip.AddrFrom4(dhcp.Broadcast), dhcp.PortServer), index: c.link.Index}
	if err := c.socket.sendOne(packet, d); err != nil {
		t.Error(err)
	}
}

// all sends the DISCOVERs of machines. It stays at most 64 packets ahead of the server, so that
// none is lost, however slow this computer is.
func (c *crowd) all(t testing.TB, kind Kind, machines ...int) {
	const ahead = 64
	c.mu.Lock()
	defer c.mu.Unlock()
	due := c.packets
	for _, n := range machines {
		for due++; due-c.packets > ahead; {
			c.reported.Wait()
		}
		c.mu.Unlock()
		c.discover(t, kind, n)
		c.mu.Lock()
	}
	for c.packets < due {
		c.reported.Wait()
	}
}

// 2,000 machines that are switched on at once are all answered, each under its own MAC. A machine
// that never stops asking, and machines beyond the bound for a second, are not. The server sends
// less than 2.4 times as many bytes as it receives, and leaks nothing.
func TestCrowd(t *testing.T) {
	before := leak.Descriptors()
	c := newCrowd(t)
	var answered sync.Map
	var answers atomic.Int64
	received := make(chan struct{})
	go func() {
		defer close(received)
		in := newInbox(batchSize)
		for {
			packets, err := c.socket.receive(in)
			if err != nil {
				return
			}
			for _, b := range packets {
				p, err := dhcp.Parse(b.packet)
				if err != nil || p.YourAddr != (dhcp.Addr{}) || crowdMAC(int(p.XID)) != p.MAC() {
					t.Errorf("a wrong answer: %v % x", err, b.packet)
					return
				}
				answered.Store(p.XID, true)
				answers.Add(1)
			}
		}
	}()
	begin := time.Now()
	bios, _ := ParseKind("bios")
	x64, _ := ParseKind("x64")
	numbers := func(from, to int) (all []int) {
		for n := from; n < to; n++ {
			all = append(all, n)
		}
		return all
	}
	const machines = 2000
	c.all(t, bios, numbers(0, machines/2)...)
	c.all(t, x64, numbers(machines/2, machines)...)
	if c.reasons[pxe.Answered] != machines {
		t.Errorf("%d of %d machines are answered", c.reasons[pxe.Answered], machines)
	}

	// This bound applies to each second.
	seconds := func() int { return int(time.Since(begin)/time.Second) + 2 }
	before8 := c.reasons[pxe.Answered]
	c.all(t, x64, slices.Repeat([]int{machines}, 200)...)
	if n := c.reasons[pxe.Answered] - before8; n < pxe.MaxRate || n > pxe.MaxRate*seconds() {
		t.Errorf("a machine that asks for ever gets %d answers in %d s", n, seconds())
	}
	c.all(t, x64, numbers(machines+1, 4*machines)...)
	if c.reasons[pxe.Answered]+c.reasons[pxe.MachineRate]+c.reasons[pxe.TotalRate] != c.packets {
		t.Errorf("the reasons are %v", c.reasons)
	}
	if 10*c.out > 24*c.in {
		t.Errorf("%d bytes went out for %d", c.out, c.in)
	}
	c.close()
	<-received
	// The receiver may be too slow for the system's buffer, but all answers that arrived were
	// right.
	if n := answers.Load(); n < machines/10 || int(n) > c.reasons[pxe.Answered] {
		t.Errorf("%d answers have come of %d", n, c.reasons[pxe.Answered])
	}
	if left := leak.Goroutines("proxydhcp.(*Server)"); left != "" {
		t.Errorf("goroutines are left: %s", left)
	}
	if left := before.Left(); len(left) > 0 {
		t.Errorf("descriptors are left: %v", left)
	}
}

// This benchmark measures how long 2,000 machines wait for their answers if they start evenly
// within a second, or all at once. The machines use as little CPU time as they can.
func BenchmarkCrowd(b *testing.B) {
	const machines = 2000
	for name, every := range map[string]time.Duration{"within a second": time.Second / machines, "at once": 0} {
		b.Run(name, func(b *testing.B) {
			c := newCrowd(b)
			defer c.close()
			sent := make([]time.Time, b.N*machines)
			waited := make(chan time.Duration, len(sent))
			go c.wait(sent, waited)
			requests := c.requests(b, len(sent))
			for round := range b.N {
				together := 1
				if every == 0 {
					together = batchSize
				}
				begin := time.Now()
				for n := round * machines; n < (round+1)*machines; {
					for time.Since(begin) < time.Duration(n%machines)*every {
						runtime.Gosched()
					}
					end := min(n+together, (round+1)*machines)
					for i := n; i < end; i++ {
						sent[i] = time.Now()
					}
					done, err := c.socket.conn.WriteBatch(requests[n:end], 0)
					if err != nil {
						b.Fatal(err)
					}
					n += done
				}
				time.Sleep(time.Second) // the bound for all machines applies to each second
			}
			c.socket.close()
			var all []time.Duration
			for d := range waited {
				all = append(all, d)
			}
			slices.Sort(all)
			if len(all) > 0 {
				ms := func(part float64) float64 {
					return float64(all[int(part*float64(len(all)-1))]) / float64(time.Millisecond)
				}
				b.ReportMetric(ms(0.5), "p50-ms")
				b.ReportMetric(ms(0.99), "p99-ms")
			}
			b.ReportMetric(100*float64(len(all))/float64(len(sent)), "%answered")
		})
	}
}

// requests returns the DISCOVERs of machines, with their numbers as xid.
func (c *crowd) requests(b *testing.B, machines int) (all []ipv4.Message) {
	x64, err := ParseKind("x64")
	if err != nil {
		b.Fatal(err)
	}
	cm := ipv4.ControlMessage{Src: loadServer.AsSlice(), IfIndex: c.link.Index}
	oob, to := cm.Marshal(), &net.UDPAddr{IP: net.IPv4bcast, Port: dhcp.PortServer}
	for n := range machines {
		packet := x64.appendRequest(nil, dhcp.Discover, crowdMAC(n), uint32(n), dhcp.Addr{})
		all = append(all, ipv4.Message{Buffers: [][]byte{packet}, OOB: oob, Addr: to})
	}
	return all
}

// wait receives answers until the socket is closed, and sends the time that each took to waited.
// Then it closes waited.
func (c *crowd) wait(sent []time.Time, waited chan<- time.Duration) {
	defer close(waited)
	const xid = 4 // its offset in a packet
	answers := make([]ipv4.Message, batchSize)
	for i := range answers {
		answers[i].Buffers = [][]byte{make([]byte, maxPacket)}
	}
	for {
		n, err := c.socket.conn.ReadBatch(answers, 0)
		if err != nil {
			return
		}
		now := time.Now()
		for i := range answers[:n] {
			waited <- now.Sub(sent[binary.BigEndian.Uint32(answers[i].Buffers[0][xid:])])
		}
	}
}
