package tftp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/internal/protocol"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// serveRequests receives requests from a socket and passes them to the shards. It returns when the
// socket is closed or fails.
func (b *binding) serveRequests(conn packetio.Socket, count *shardCounters) error {
	limits := conn.Limits()
	in := make([]udp.Message, limits.Messages)
	for i := range in {
		in[i].Data = make([]byte, max(limits.Datagram, 1<<16))
	}
	out := packetio.NewBatch(conn, batchMessages, 0)
	var answers packetio.RateLimit
	at := conn.LocalAddr()
	for {
		n, err := conn.Read(in, time.Time{})
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("tftp: receive requests on %v: %w", conn.LocalAddr(), err)
		}
		for i := range in[:n] {
			m := &in[i]
			if m.Broadcast && conn != b.requestSockets[0] {
				continue // each of the request sockets receives a copy, and only the first passes it on
			}
			for d := range m.Datagrams() {
				count.received(1, len(d))
				q, fault, ok := b.server.config.parseRequest(m, d, at)
				switch {
				case ok:
					b.dispatch(q, count)
				case fault != nil && answers.Allow(time.Now(), maxErrors):
					out.AddError(m.Peer, m.Local, fault.Code, fault.Message)
					fallthrough
				default:
					count.turnAway(Malformed)
				}
			}
		}
		out.Flush()
		count.flush(&out.Counts, b.server.config.Hooks.TurnedAway)
	}
}

// parseRequest parses a request that arrived at a socket bound to the address `at`. If the request
// is not valid, ok is false. fault is then the ERROR to send, or nil if the datagram must not be
// answered.
func (c *Config) parseRequest(m *udp.Message, b []byte, at netip.AddrPort) (q Request, fault *transfer.Error, ok bool) {
	// No host has such an address, so the source is forged and no answer can reach it.
	if a := m.Peer.Addr(); m.Peer.Port() == 0 || a.IsUnspecified() || a.IsMulticast() {
		return q, nil, false
	}
	parsed, err := protocol.ParseRequestWithout(c.refused(m.Peer.Addr()), b)
	if err == nil {
		local := m.Local
		if !local.IsValid() && !at.Addr().IsUnspecified() {
			local = at.Addr() // the kernel has not reported to which address the request was sent
		}
		return Request{Request: parsed, Peer: m.Peer, Local: netip.AddrPortFrom(local, at.Port())}, nil, true
	}
	// An ERROR is never answered: otherwise two hosts could answer each other forever.
	if op := transfer.OpcodeOf(b); op == transfer.ErrorPacket || op == 0 {
		return q, nil, false
	}
	errors.As(err, &fault)
	return q, fault, false
}

// dispatch passes a request to the shard that its route names.
func (b *binding) dispatch(q Request, count *shardCounters) {
	if sh := b.route(time.Now(), &q); !sh.push(q) {
		count.turnAway(Overload)
		b.routes.lost(q.Peer)
	}
}
