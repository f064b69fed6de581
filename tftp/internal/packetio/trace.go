package packetio

import (
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/haul-project/haul/udp"
)

// A tracedSocket passes each datagram that is received or sent to a trace function.
type tracedSocket struct {
	Socket
	from  netip.Addr // if valid, replaces the unspecified address in traces
	trace func(at time.Time, sent bool, peer, local netip.AddrPort, data []byte)
}

func (t *tracedSocket) Read(ms []udp.Message, deadline time.Time) (int, error) {
	n, err := t.Socket.Read(ms, deadline)
	t.show(ms[:n], false)
	return n, err
}

// Write sends messages, and traces their datagrams, except those that the kernel refuses.
func (t *tracedSocket) Write(ms []udp.Message) (int, error) {
	n, err := t.Socket.Write(ms)
	t.show(ms[:n], true)
	return n, err
}

// File duplicates the underlying socket.
func (t *tracedSocket) File() (*os.File, error) { return Duplicate(t.Socket) }

func (t *tracedSocket) show(ms []udp.Message, sent bool) {
	if len(ms) == 0 {
		return
	}
	now, at := time.Now(), t.LocalAddr()
	if at.Addr().IsUnspecified() && t.from.IsValid() {
		at = netip.AddrPortFrom(t.from, at.Port())
	}
	for i := range ms {
		local := at
		if ms[i].Local.IsValid() {
			local = netip.AddrPortFrom(ms[i].Local, at.Port())
		}
		for d := range ms[i].Datagrams() {
			t.trace(now, sent, ms[i].Peer, local, d)
		}
	}
}

// Trace returns a socket that passes the datagrams of conn to a trace function. If trace is nil, it
// returns conn.
func Trace(conn Socket, trace func(time.Time, bool, netip.AddrPort, netip.AddrPort, []byte)) Socket {
	if trace == nil {
		return conn
	}
	return &tracedSocket{Socket: conn, trace: trace}
}

// TraceTo is like Trace, for a socket that exchanges packets with one host. The trace shows the
// local address of the route to that host.
func TraceTo(host netip.AddrPort, conn Socket, trace func(time.Time, bool, netip.AddrPort, netip.AddrPort, []byte)) Socket {
	if trace == nil {
		return conn
	}
	t := &tracedSocket{Socket: conn, trace: trace}
	if c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(host)); err == nil { // this sends nothing
		t.from = c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
		c.Close()
	}
	return t
}
