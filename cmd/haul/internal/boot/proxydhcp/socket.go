package proxydhcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/net/ipv4"
)

// receiveBuffer is how much the kernel is asked to keep of what has come, in bytes: the packets
// of some thousand machines that are switched on at once. Without CAP_NET_ADMIN it keeps no
// more than the system's maximum, which is often room for 150.
const receiveBuffer = 4 << 20

// A socket exchanges DHCP packets at one port of all interfaces. It knows the interface
// that a packet came by, and sends by the one that it is asked to.
type socket struct {
	conn      *ipv4.PacketConn
	duplicate func() (*os.File, error)
	port      uint16

	// raw is set where another DHCP server of this machine has the port. The kernel then
	// copies each packet for the port to this socket, with its UDP header.
	raw bool
}

// An arrival is how a packet came.
type arrival struct {
	peer  netip.AddrPort
	to    netip.Addr // the address that it was sent to, often 255.255.255.255
	index int        // of the interface
}

// openSocket opens a port of all interfaces. With share, and if another program has the
// port, both get its packets; that needs CAP_NET_RAW, and Linux.
func openSocket(ctx context.Context, port uint16, share bool) (s *socket, err error) {
	var lc net.ListenConfig
	c, err := lc.ListenPacket(ctx, "udp4", net.JoinHostPort("0.0.0.0", strconv.Itoa(int(port))))
	switch {
	case err == nil:
		s, err = newSocket(c, port, false)
	case share && errors.Is(err, syscall.EADDRINUSE):
		s, err = sharePort(port)
	}
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, syscall.EACCES):
		err = fmt.Errorf("%w: run haul as root, or give it CAP_NET_BIND_SERVICE", err)
	case errors.Is(err, syscall.EPERM):
		err = fmt.Errorf("%w: run haul as root, or give it CAP_NET_RAW", err)
	}
	return nil, fmt.Errorf("open UDP port %d: %w", port, err)
}

// newSocket returns a socket for an open connection, which it closes if it fails.
func newSocket(c net.PacketConn, port uint16, raw bool) (*socket, error) {
	s := &socket{conn: ipv4.NewPacketConn(c), port: port, raw: raw}
	switch c := c.(type) {
	case *net.UDPConn:
		s.duplicate = c.File
		setBuffer(c, c.SetReadBuffer)
	case *net.IPConn:
		s.duplicate = c.File
		setBuffer(c, c.SetReadBuffer)
	default:
		_ = c.Close()
		return nil, fmt.Errorf("a socket of %T takes no datagrams of UDP", c)
	}
	if err := s.conn.SetControlMessage(ipv4.FlagInterface|ipv4.FlagDst, true); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("learn the interface of each packet: %w", err)
	}
	return s, nil
}

// adoptSocket returns a socket for a duplicate of one that a predecessor opened.
func adoptSocket(f *os.File, port uint16) (*socket, error) {
	c, err := net.FilePacketConn(f)
	if err != nil {
		return nil, err
	}
	_, raw := c.(*net.IPConn)
	return newSocket(c, port, raw)
}

func (s *socket) close() { _ = s.conn.Close() }

// batchSize is how many packets one call receives, and how many answers one call sends.
const batchSize = 32

// An inbox is memory for what one call receives.
type inbox struct {
	messages []ipv4.Message
	packets  []received
}

// A received is a packet, and how it came.
type received struct {
	packet []byte
	arrival
}

func newInbox(size int) *inbox {
	in := &inbox{messages: make([]ipv4.Message, size)}
	for i := range in.messages {
		in.messages[i] = ipv4.Message{Buffers: [][]byte{make([]byte, maxPacket)}, OOB: ipv4.NewControlMessage(ipv4.FlagInterface | ipv4.FlagDst)}
	}
	return in
}

// receive waits for packets. They are valid until the next call with the same inbox.
func (s *socket) receive(in *inbox) ([]received, error) {
	for in.packets = in.packets[:0]; len(in.packets) == 0; {
		n, err := s.conn.ReadBatch(in.messages, 0)
		if err != nil {
			return nil, err
		}
		for i := range in.messages[:n] {
			m := &in.messages[i]
			packet, peer, ok := s.payload(m.Buffers[0][:m.N], m.Addr)
			var cm ipv4.ControlMessage
			if !ok || cm.Parse(m.OOB[:m.NN]) != nil || cm.IfIndex == 0 {
				continue // cut short, or of an unknown interface: nothing can be said about it
			}
			to, _ := netip.AddrFromSlice(cm.Dst.To4())
			in.packets = append(in.packets, received{packet, arrival{peer: peer, to: to, index: cm.IfIndex}})
		}
	}
	return in.packets, nil
}

// payload returns the DHCP packet of what the kernel passed on, and its sender. A raw socket
// gets the IP header, too.
func (s *socket) payload(b []byte, from net.Addr) ([]byte, netip.AddrPort, bool) {
	if !s.raw {
		at, ok := from.(*net.UDPAddr)
		if !ok {
			return nil, netip.AddrPort{}, false
		}
		peer := at.AddrPort()
		return b, netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port()), true
	}
	at, ok := from.(*net.IPAddr)
	if !ok || len(b) == 0 {
		return nil, netip.AddrPort{}, false
	}
	b = b[min(int(b[0]&15)*4, len(b)):] // behind the IP header (RFC 791 §3.1)
	ip, ok := netip.AddrFromSlice(at.IP.To4())
	h, whole := parseHeader(b)
	if !ok || !whole || h.to != s.port {
		return nil, netip.AddrPort{}, false
	}
	return b[headerLen:h.length], netip.AddrPortFrom(ip, h.from), true
}

// A departure is how a packet is sent.
type departure struct {
	from  netip.Addr // an address of this machine
	to    netip.AddrPort
	index int // of the interface; 0 leaves it to the routes
}

// An outbox has packets for one call to send.
type outbox struct {
	messages  []ipv4.Message // all that there is room for
	errs      []*error       // of those that were added
	datagrams [][]byte       // memory for packets with their headers

	// How the latest packet is sent, as the kernel wants it. Many go the same way.
	last departure
	addr net.Addr
	oob  []byte
}

func newOutbox(size int) *outbox {
	out := &outbox{messages: make([]ipv4.Message, size), datagrams: make([][]byte, size)}
	for i := range out.messages {
		out.messages[i].Buffers = make([][]byte, 1)
	}
	return out
}

// add adds a packet, which must stay as it is until it is sent. If that fails, err is set.
func (s *socket) add(out *outbox, packet []byte, d departure, err *error) {
	if out.addr == nil || d != out.last {
		cm := ipv4.ControlMessage{Src: d.from.AsSlice(), IfIndex: d.index}
		out.last, out.oob, out.addr = d, cm.Marshal(), net.UDPAddrFromAddrPort(d.to)
		if s.raw {
			out.addr = &net.IPAddr{IP: d.to.Addr().AsSlice()}
		}
	}
	i := len(out.errs)
	if s.raw {
		out.datagrams[i] = appendDatagram(out.datagrams[i][:0], netip.AddrPortFrom(d.from, s.port), d.to, packet)
		packet = out.datagrams[i]
	}
	m := &out.messages[i]
	m.Buffers[0], m.OOB, m.Addr = packet, out.oob, out.addr
	out.errs = append(out.errs, err)
}

// send sends what was added, in its order. A packet that cannot be sent does not keep back the
// others.
func (s *socket) send(out *outbox) {
	for at := 0; at < len(out.errs); {
		n, err := s.conn.WriteBatch(out.messages[at:len(out.errs)], 0)
		if n < 1 { // the first of them failed
			*out.errs[at], n = fmt.Errorf("send to %v: %w", out.messages[at].Addr, err), 1
		}
		at += n
	}
	out.errs = out.errs[:0]
}

// sendOne sends one packet.
func (s *socket) sendOne(packet []byte, d departure) (err error) {
	out := newOutbox(1)
	s.add(out, packet, d, &err)
	s.send(out)
	return err
}
