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

// receive waits for a packet, and reads it into buf. The slice that it returns is part of
// buf.
func (s *socket) receive(buf []byte) ([]byte, arrival, error) {
	for {
		n, cm, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return nil, arrival{}, err
		}
		packet, peer, ok := s.payload(buf[:n], from)
		if !ok || cm == nil {
			continue // cut short, or of an unknown interface: nothing can be said about it
		}
		to, _ := netip.AddrFromSlice(cm.Dst.To4())
		return packet, arrival{peer: peer, to: to, index: cm.IfIndex}, nil
	}
}

// payload returns the DHCP packet of a datagram, and its sender.
func (s *socket) payload(datagram []byte, from net.Addr) ([]byte, netip.AddrPort, bool) {
	if !s.raw {
		at, ok := from.(*net.UDPAddr)
		if !ok {
			return nil, netip.AddrPort{}, false
		}
		peer := at.AddrPort()
		return datagram, netip.AddrPortFrom(peer.Addr().Unmap(), peer.Port()), true
	}
	at, ok := from.(*net.IPAddr)
	if !ok {
		return nil, netip.AddrPort{}, false
	}
	ip, ok := netip.AddrFromSlice(at.IP.To4())
	h, whole := parseHeader(datagram)
	if !ok || !whole || h.to != s.port {
		return nil, netip.AddrPort{}, false
	}
	return datagram[headerLen:h.length], netip.AddrPortFrom(ip, h.from), true
}

// A departure is how a packet is sent.
type departure struct {
	from  netip.Addr // an address of this machine
	to    netip.AddrPort
	index int // of the interface; 0 leaves it to the routes
}

// send sends a packet. buf is for what comes before it, and returned to be used again.
func (s *socket) send(buf, packet []byte, d departure) ([]byte, error) {
	cm := &ipv4.ControlMessage{Src: d.from.AsSlice(), IfIndex: d.index}
	if !s.raw {
		_, err := s.conn.WriteTo(packet, cm, net.UDPAddrFromAddrPort(d.to))
		return buf, err
	}
	buf = appendDatagram(buf[:0], netip.AddrPortFrom(d.from, s.port), d.to, packet)
	_, err := s.conn.WriteTo(buf, cm, &net.IPAddr{IP: d.to.Addr().AsSlice()})
	return buf, err
}
