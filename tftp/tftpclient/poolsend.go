package tftpclient

import (
	"errors"
	"net/netip"
	"syscall"
	"time"

	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/udp"
)

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
