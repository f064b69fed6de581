package sim

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/haul-project/haul/udp"
)

// A Host is a machine in a Network. It has one or more addresses, and sockets.
type Host struct {
	net   *Network
	addrs []netip.Addr
	ports map[uint16][]*Conn // the sockets of each port: several if they share it; guarded by net.mu
}

const (
	// For port 0, Listen chooses a port from this range.
	firstPort = 32768
	lastPort  = 60999

	// maxBuffer is how many received bytes a socket buffers. Further datagrams are dropped.
	maxBuffer = 8 << 20
)

// Listen opens a socket. addr must be an address of the host; an unspecified or zero address stands
// for all of them. For port 0 Listen chooses a port. It uses only the ReusePort and Refusals of c.
func (h *Host) Listen(ctx context.Context, addr netip.AddrPort, c udp.Config) (*Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	conn := &Conn{
		host:     h,
		shares:   c.ReusePort,
		refusals: c.Refusals,
		notify:   make(chan struct{}, 1),
	}
	ip, port := addr.Addr(), addr.Port()
	switch {
	case !ip.IsValid():
		ip = netip.IPv6Unspecified()
		fallthrough
	case ip.IsUnspecified():
	case !slices.Contains(h.addrs, ip):
		return nil, fmt.Errorf("listen on %v: %w", addr, syscall.EADDRNOTAVAIL)
	default:
		conn.only = ip
	}
	if port == 0 {
		port = h.freePort()
	}
	for _, other := range h.ports[port] {
		overlap := other.only == conn.only || !other.only.IsValid() || !conn.only.IsValid()
		if overlap && (!other.shares || !conn.shares) {
			return nil, fmt.Errorf("listen on %v: %w", addr, syscall.EADDRINUSE)
		}
	}
	conn.local = netip.AddrPortFrom(ip, port)
	h.ports[port] = append(h.ports[port], conn)
	return conn, nil
}

func (h *Host) freePort() uint16 {
	for {
		h.net.seq++
		port := firstPort + h.net.seq%(lastPort-firstPort+1)
		if len(h.ports[port]) == 0 {
			return port
		}
	}
}

// Open returns the number of open sockets of h.
func (h *Host) Open() int {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	n := 0
	for _, conns := range h.ports {
		n += len(conns)
	}
	return n
}

var sharers = maphash.MakeSeed()

// at returns the socket of h that receives a datagram, or nil if no socket does. If several sockets
// share the port, the peer's address decides, so that each peer always reaches the same socket.
func (h *Host) at(from, to netip.AddrPort) *Conn {
	var fit []*Conn
	for _, c := range h.ports[to.Port()] {
		if !c.only.IsValid() || c.only == to.Addr() {
			fit = append(fit, c)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	return fit[maphash.Comparable(sharers, from)%uint64(len(fit))]
}

// A Conn is a socket of a Host. It has the methods of a udp.Conn.
type Conn struct {
	host     *Host
	local    netip.AddrPort
	only     netip.Addr    // datagrams to other addresses are not accepted; zero means all addresses of the host
	shares   bool          // other sockets may have the same port: see udp.Config.ReusePort
	refusals bool          // Read reports that a datagram could not be delivered: see udp.Config.Refusals
	notify   chan struct{} // has a value when a waiting Read should check again
	timer    *time.Timer   // limits the wait of a Read; only the reader uses it

	// These fields are guarded by net.mu of the host.
	in     []arrival // datagrams and reports that this socket has not read yet, sorted by arrival time
	bytes  int       // total size of the datagrams in the field `in`
	woken  bool      // the next Read that would wait returns instead
	closed bool
}

// An arrival is a datagram on its way to a socket, or in the socket's buffer. If refused is set, it is
// a report that a datagram to the address `from` could not be delivered.
type arrival struct {
	at      time.Time // when the datagram or the report arrives
	from    netip.AddrPort
	to      netip.Addr
	data    []byte
	refused bool
}

// arrive queues an arrival at a Conn, or drops it if the buffer is full. The caller holds net.mu of
// the host.
func (c *Conn) arrive(a arrival) {
	if c.bytes+len(a.data) > maxBuffer {
		return
	}
	c.bytes += len(a.data)
	i := len(c.in)
	for i > 0 && a.at.Before(c.in[i-1].at) {
		i--
	}
	c.in = slices.Insert(c.in, i, a)
	c.wakeReader()
}

func (c *Conn) wakeReader() {
	select {
	case c.notify <- struct{}{}:
	default:
	}
}

// Read waits for datagrams, as udp.Conn.Read does.
func (c *Conn) Read(ms []udp.Message, deadline time.Time) (int, error) {
	if len(ms) == 0 {
		return 0, nil
	}
	for {
		n, next, err := c.look(ms, deadline)
		if n > 0 || err != nil || next < 0 {
			return n, err
		}
		if next == 0 {
			<-c.notify
			continue
		}
		if c.timer == nil {
			c.timer = time.NewTimer(next)
		} else {
			c.timer.Reset(next)
		}
		select {
		case <-c.notify:
		case <-c.timer.C:
		}
		c.timer.Stop()
	}
}

// look puts the messages that have arrived into ms, and returns their number. If n is 0, next says
// how long to wait for messages: 0 means without a limit, and a negative value means that Read
// returns without any.
func (c *Conn) look(ms []udp.Message, deadline time.Time) (n int, next time.Duration, err error) {
	network := c.host.net
	network.mu.Lock()
	defer network.mu.Unlock()
	now := time.Now()
	if c.closed {
		return 0, 0, fmt.Errorf("read %v: %w", c.local, net.ErrClosed)
	}
	woken := c.woken
	c.woken = false
	ms = ms[:min(len(ms), max(1, network.Messages))]
	for len(c.in) > 0 && !c.in[0].at.After(now) {
		a := c.in[0]
		if a.refused && n > 0 || !a.refused && !c.deliver(ms, &n, a) {
			return n, 0, nil // the next Read handles this arrival
		}
		c.bytes -= len(a.data)
		c.in = slices.Delete(c.in, 0, 1)
		if a.refused {
			return 0, 0, &net.OpError{Op: "read", Net: "udp", Addr: net.UDPAddrFromAddrPort(a.from), Err: syscall.ECONNREFUSED}
		}
	}
	if n > 1 {
		ms[0].Data, ms[n-1].Data = swapped(ms[0].Data, ms[n-1].Data)
	}
	if !deadline.IsZero() {
		next = deadline.Sub(now)
	}
	if n > 0 || woken || !deadline.IsZero() && next <= 0 || network.rng.IntN(spurious) == 0 {
		return n, -1, nil
	}
	if len(c.in) > 0 && (next == 0 || c.in[0].at.Sub(now) < next) {
		next = c.in[0].at.Sub(now)
	}
	return 0, next, nil
}

// deliver puts a datagram into one of ms, of which the first n are in use. It returns false if all
// are in use. It drops a datagram that is longer than the capacity of the message's Data.
func (c *Conn) deliver(ms []udp.Message, n *int, a arrival) bool {
	if c.host.net.Glue && *n > 0 {
		m := &ms[*n-1]
		first := m.Segment
		if first == 0 {
			first = len(m.Data)
		}
		whole := first > 0 && len(m.Data)%first == 0
		if whole && m.Peer == a.from && m.Local == a.to && len(a.data) > 0 && len(a.data) <= first && len(m.Data)+len(a.data) <= cap(m.Data) {
			m.Segment = first
			m.Data = append(m.Data, a.data...)
			return true
		}
	}
	if *n == len(ms) {
		return false
	}
	m := &ms[*n]
	if len(a.data) > cap(m.Data) {
		return true
	}
	*m = udp.Message{Peer: a.from, Local: a.to, Data: append(m.Data[:0], a.data...)}
	*n++
	return true
}

// swapped exchanges two messages, so that each is in the other's buffer, if they fit. So a test fails
// if a caller relies on which buffer holds which message, which a udp.Conn does not promise.
func swapped(a, b []byte) (x, y []byte) {
	if len(a) > cap(b) || len(b) > cap(a) {
		return a, b
	}
	was := bytes.Clone(a)
	y = append(a[:0], b...)
	x = append(b[:0], was...)
	return x, y
}

// Write sends datagrams, as udp.Conn.Write does.
func (c *Conn) Write(ms []udp.Message) (int, error) {
	network := c.host.net
	network.mu.Lock()
	defer network.mu.Unlock()
	if c.closed {
		return 0, fmt.Errorf("write %v: %w", c.local, net.ErrClosed)
	}
	now := time.Now()
	for i := range ms {
		m := &ms[i]
		from := c.host.addrs[0]
		if m.Local.IsValid() {
			from = m.Local
		} else if c.only.IsValid() {
			from = c.only
		}
		for b := range m.Datagrams() {
			p := Packet{From: netip.AddrPortFrom(from, c.local.Port()), To: m.Peer, Data: b}
			if err := network.send(now, c, p); err != nil {
				return i, fmt.Errorf("send to %v: %w", m.Peer, err)
			}
		}
	}
	return len(ms), nil
}

// Wake makes a waiting Read return. If no Read is waiting, the next one returns instead of waiting.
func (c *Conn) Wake() {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	c.woken = true
	c.wakeReader()
}

// Limits returns how much one call of Read or Write can move.
func (c *Conn) Limits() udp.Limits {
	n := c.host.net
	l := udp.Limits{Messages: max(1, n.Messages), Segments: max(1, n.Segments), Datagram: 1, Buffer: maxBuffer}
	if n.Glue {
		l.Datagram = 1 << 16
	}
	return l
}

// LocalAddr returns the address c is bound to.
func (c *Conn) LocalAddr() netip.AddrPort { return c.local }

// Close closes the socket. A waiting Read returns.
func (c *Conn) Close() error {
	c.host.net.mu.Lock()
	defer c.host.net.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	port := c.local.Port()
	c.host.ports[port] = slices.DeleteFunc(c.host.ports[port], func(o *Conn) bool { return o == c })
	c.in, c.bytes = nil, 0
	c.wakeReader()
	return nil
}
