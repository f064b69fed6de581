package tftpclient

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// find returns the transfer that a datagram from peer belongs to, or nil. The result known is false
// if no transfer has the peer's transfer ID.
func (k *poolSocket) find(peer netip.AddrPort) (x *poolTransfer, known bool) {
	if k.loop.pool.private {
		if x = k.only; x.peer.IsValid() && x.peer != peer || x.server.Addr() != peer.Addr() {
			return nil, false
		}
		return x, true
	}
	if x, known = k.peers[peer]; known {
		return x, true
	}
	if u := k.hosts[peer.Addr()]; u != nil && u.asking != nil {
		return u.asking, true
	}
	return nil, false
}

// receive passes a message to the transfer it belongs to, and returns that transfer.
func (k *poolSocket) receive(now time.Time, m *udp.Message) *poolTransfer {
	lp := k.loop
	if t := lp.pool.client.Trace; t != nil {
		for b := range m.Datagrams() {
			t(now, false, m.Peer, netip.AddrPort{}, b)
		}
	}
	x, known := k.find(m.Peer)
	if x == nil || x.requested.IsZero() {
		if !known {
			k.stray(now, m)
		}
		return nil
	}
	for b := range m.Datagrams() {
		if lose := lp.pool.hooks.Lose; lose == nil || !lose(false) {
			x.handle(now, b)
		}
	}
	if !x.peer.IsValid() {
		if done, _ := x.machine.Done(); done || x.machine.Heard() {
			k.answered(now, x, m.Peer)
		}
	}
	return x
}

// stray answers a stranger with an ERROR (RFC 1350 §4).
func (k *poolSocket) stray(now time.Time, m *udp.Message) {
	if transfer.OpcodeOf(m.Data) == transfer.ErrorPacket || !k.loop.errors.Allow(now, maxPoolStrays) {
		return
	}
	k.loop.conn.member = k.member
	k.member.SetPeer(m.Peer)
	k.loop.out.AddError(m.Peer, netip.Addr{}, transfer.UnknownID, "unknown transfer ID")
	k.loop.out.Flush()
	k.loop.out.Err = nil // an error from sending to a stranger must not affect a transfer
	if k.only != nil {
		k.member.SetPeer(k.only.to())
	}
}

// refused handles an error of the socket: it ends the transfers that the error concerns.
func (k *poolSocket) refused(now time.Time, err error) {
	lp := k.loop
	var op *net.OpError
	if !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &op) {
		for _, x := range k.transfers() {
			x.fail(err)
			lp.advance(now, x)
		}
		return
	}
	from, ok := op.Addr.(*net.UDPAddr)
	if !ok {
		return
	}
	at := from.AddrPort()
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	x, _ := k.find(at)
	if x == nil || x.to().Port() != at.Port() {
		return // the error is about a packet to a stranger
	}
	if x.ended { // the server has ended the transfer
		lp.stopDallying(x)
		return
	}
	if x.machine.Heard() {
		x.fail(fmt.Errorf("server went away: %w", syscall.ECONNREFUSED))
	} else {
		x.fail(fmt.Errorf("no TFTP server listens there: %w", syscall.ECONNREFUSED))
	}
	lp.advance(now, x)
}

// A memberConn is the connection of a loop's batch. It sends through the socket of the current
// transfer.
type memberConn struct {
	settings *poolSettings
	member   *udp.Member
}

// Limits reports that messages can be cut into segments. This does not apply when a test hook drops
// datagrams, which must then be sent one by one.
func (l *memberConn) Limits() udp.Limits {
	if l.settings.hooks.Lose != nil {
		return udp.Limits{Segments: 1}
	}
	return udp.Limits{Segments: packetio.MaxDatagrams}
}

func (l *memberConn) Write(ms []udp.Message) (int, error) {
	for i := range ms {
		m := &ms[i]
		if t := l.settings.client.Trace; t != nil {
			for b := range m.Datagrams() {
				t(time.Now(), true, m.Peer, netip.AddrPort{}, b)
			}
		}
		if lose := l.settings.hooks.Lose; lose != nil && lose(true) {
			continue
		}
		if !l.settings.private {
			l.member.SetPeer(m.Peer)
		}
		if err := l.member.Write(m.Data, m.Segment); err != nil {
			return i, err
		}
	}
	return len(ms), nil
}

var errNoFreePort = errors.New("no free port on this host (see net.ipv4.ip_local_port_range)")

// sendError returns the error with which a transfer ends after sending has failed, or nil if the
// transfer continues.
func sendError(err error, heard bool) error {
	switch {
	case errors.Is(err, syscall.EAGAIN):
		if heard {
			return nil
		}
		return errNoFreePort
	case heard && unreachable(err):
		return nil // the error may be temporary
	}
	return err
}
