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

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"golang.org/x/net/ipv4"
)

const (
	// maxPacket is the length, in bytes, of the longest packet that is read. A client's options
	// need a few hundred bytes. A longer packet is truncated, and then counts as malformed.
	maxPacket = 2048

	// receiveBuffer is the size, in bytes, of the receive buffer that the kernel is asked for:
	// enough for the packets of a few thousand machines that are switched on at the same time.
	// Without CAP_NET_ADMIN, the system's maximum applies, which often has room for only 150 packets.
	receiveBuffer = 4 << 20
)

var broadcast = netip.AddrFrom4(dhcp.Broadcast)

// A socket receives and sends DHCP packets at one port, on all interfaces. It reports on which
// interface a packet arrived, and sends on the interface that the caller chooses.
type socket struct {
	conn      *ipv4.PacketConn
	duplicate func() (*os.File, error)
	port      uint16

	// raw says that another DHCP server of this machine has the port open. The kernel then copies
	// each packet to the port, with its UDP header, to this socket.
	raw bool
}

// An arrival describes how a packet arrived.
type arrival struct {
	peer  netip.AddrPort
	to    netip.Addr // destination address of the packet, often 255.255.255.255
	index int        // index of the interface on which the packet arrived
}

// openSocket opens a port on all interfaces. If another program has the port open and share is set,
// both programs get its packets; that works on Linux only, and requires CAP_NET_RAW.
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

// newSocket returns a socket for an open connection. If it fails, it closes the connection.
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

// adoptSocket returns a socket for a duplicate of a predecessor's socket.
func adoptSocket(f *os.File, port uint16) (*socket, error) {
	c, err := net.FilePacketConn(f)
	if err != nil {
		return nil, err
	}
	_, raw := c.(*net.IPConn)
	return newSocket(c, port, raw)
}

func (s *socket) close() { _ = s.conn.Close() }

// batchSize is the largest number of packets that one system call receives or sends.
const batchSize = 32

// An inbox is memory for the packets that one call of receive returns.
type inbox struct {
	messages []ipv4.Message
	packets  []received
}

// A received is a packet, together with how it arrived.
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

// receive waits for packets and returns them. They are valid until the next call with the same
// inbox.
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
				continue // the packet was truncated or its interface is unknown, so ignore it
			}
			to, _ := netip.AddrFromSlice(cm.Dst.To4())
			in.packets = append(in.packets, received{packet, arrival{peer: peer, to: to, index: cm.IfIndex}})
		}
	}
	return in.packets, nil
}

// payload returns the DHCP packet in the bytes that the kernel delivered, and its sender. For a raw
// socket, the bytes begin with the IP header.
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
	b = b[min(int(b[0]&15)*4, len(b)):] // skip the IP header (RFC 791 §3.1)
	ip, ok := netip.AddrFromSlice(at.IP.To4())
	h, whole := parseHeader(b)
	if !ok || !whole || h.to != s.port {
		return nil, netip.AddrPort{}, false
	}
	return b[headerLen:h.length], netip.AddrPortFrom(ip, h.from), true
}

// A departure says how to send a packet.
type departure struct {
	from  netip.Addr // source address: one of this machine's
	to    netip.AddrPort
	index int // index of the interface; 0 means that the routing table decides
}

// An outbox holds packets to be sent by one call of send.
type outbox struct {
	messages  []ipv4.Message // memory for messages, up to the size of the outbox
	errs      []*error       // where to store the error of each added message
	datagrams [][]byte       // memory for packets with UDP headers

	// last is the departure of the packet that was added last, and addr is the destination in it,
	// in the kernel's form. Both are kept because many packets have the same departure.
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

// add adds a packet to the outbox. The packet must not change before it is sent. If sending it
// fails, *err is set.
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

// send sends the packets of the outbox, in order. If a packet cannot be sent, send continues with
// the next one.
func (s *socket) send(out *outbox) {
	for at := 0; at < len(out.errs); {
		n, err := s.conn.WriteBatch(out.messages[at:len(out.errs)], 0)
		if n < 1 { // the first of the remaining packets failed
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
