package tftpclient

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// maxPoolStrays is how many datagrams from strangers a loop answers per second.
const maxPoolStrays = 100

// read handles the packets that a socket has received.
func (lp *poolLoop) read(now time.Time, s *poolSocket) {
	if s == nil || s.member == nil {
		return // the socket was closed in this turn
	}
	ms, err := s.member.Read()
	for i := range ms {
		if s.member == nil {
			return
		}
		x := lp.receive(now, s, &ms[i])
		if x != nil && !lp.pool.private {
			lp.advance(now, x)
		}
	}
	if x := s.only; x != nil && lp.pool.private && len(ms) > 0 {
		lp.advance(now, x) // only once, after all packets, because they all belong to x
	}
	if err != nil && s.member != nil {
		lp.refused(now, s, err)
	}
}

// receive passes a message to the transfer of its sender, and returns that transfer. It returns nil
// if the sender has no transfer under way.
func (lp *poolLoop) receive(now time.Time, k *poolSocket, m *udp.Message) *poolTransfer {
	if t := lp.pool.client.Trace; t != nil {
		for b := range m.Datagrams() {
			t(now, false, m.Peer, netip.AddrPort{}, b)
		}
	}
	x, known := k.find(m.Peer)
	if x == nil || x.requested.IsZero() {
		if !known {
			lp.stray(now, k, m)
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
			if err := k.answered(now, x, m.Peer, done && !lp.lossy); err != nil {
				x.abort("client cannot connect", err)
			}
		}
	}
	return x
}

// stray answers a stranger with an ERROR (RFC 1350 §4).
func (lp *poolLoop) stray(now time.Time, k *poolSocket, m *udp.Message) {
	if transfer.OpcodeOf(m.Data) == transfer.ErrorPacket || !lp.errors.Allow(now, maxPoolStrays) {
		return
	}
	lp.conn.member = k.member
	k.member.SetPeer(m.Peer)
	lp.out.AddError(m.Peer, netip.Addr{}, transfer.UnknownID, "unknown transfer ID")
	lp.out.Flush()
	lp.out.Err = nil // an error from sending to a stranger must not affect a transfer
	if k.only != nil {
		k.member.SetPeer(k.only.to())
	}
}

// refused handles an error from a socket: it ends the transfers that the error concerns.
func (lp *poolLoop) refused(now time.Time, k *poolSocket, err error) {
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
