package tftpclient

import (
	"errors"
	"net/netip"
	"syscall"
	"time"

	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/udp"
)

// A memberConn is the connection of a loop's batch: the socket of the transfer that is
// sending.
type memberConn struct {
	pool   *Pool
	member *udp.Member
}

// Limits says that messages are worth cutting, unless each datagram may be lost
// alone.
func (l *memberConn) Limits() udp.Limits {
	if l.pool.Lose != nil {
		return udp.Limits{Segments: 1}
	}
	return udp.Limits{Segments: packetio.MaxDatagrams}
}

func (l *memberConn) Write(ms []udp.Message) (int, error) {
	for i := range ms {
		m := &ms[i]
		if t := l.pool.client().Trace; t != nil {
			for b := range m.Datagrams() {
				t(time.Now(), true, m.Peer, netip.AddrPort{}, b)
			}
		}
		if lose := l.pool.Lose; lose != nil && lose(true) {
			continue
		}
		if !l.pool.private() {
			l.member.SetPeer(m.Peer)
		}
		if err := l.member.Write(m.Data, m.Segment); err != nil {
			return i, err
		}
	}
	return len(ms), nil
}

// sendError says what an error of a send means for a transfer; nil for nothing.
func sendError(err error, heard bool) error {
	switch {
	case errors.Is(err, syscall.EAGAIN):
		if heard {
			return nil
		}
		return errNoFreePort
	case heard && unreachable(err):
		return nil // for a moment, perhaps
	}
	return err
}
