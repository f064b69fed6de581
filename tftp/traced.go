package tftp

import (
	"net"
	"net/netip"
	"time"

	"github.com/haul-project/haul/udp"
)

// A tracedSocket shows each datagram that comes and goes to a trace function.
type tracedSocket struct {
	socket
	from  netip.Addr // stands for the unspecified address, if it is valid
	trace func(at time.Time, sent bool, peer, local netip.AddrPort, data []byte)
}

func (t *tracedSocket) Read(ms []udp.Message, deadline time.Time) (int, error) {
	n, err := t.socket.Read(ms, deadline)
	t.show(ms[:n], false)
	return n, err
}

// Write traces the datagrams that have left. Those that the kernel refuses are
// absent from the trace.
func (t *tracedSocket) Write(ms []udp.Message) (int, error) {
	n, err := t.socket.Write(ms)
	t.show(ms[:n], true)
	return n, err
}

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

// traced has a trace function, if there is one, see what goes through a socket.
func traced(conn socket, trace func(time.Time, bool, netip.AddrPort, netip.AddrPort, []byte)) socket {
	if trace == nil {
		return conn
	}
	return &tracedSocket{socket: conn, trace: trace}
}

// tracedTo is traced for a socket that speaks to one host: the address that
// packets leave from is the one of the route.
func tracedTo(host netip.AddrPort, conn socket, trace func(time.Time, bool, netip.AddrPort, netip.AddrPort, []byte)) socket {
	if trace == nil {
		return conn
	}
	t := &tracedSocket{socket: conn, trace: trace}
	if c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(host)); err == nil { // nothing is sent
		t.from = c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
		c.Close()
	}
	return t
}
