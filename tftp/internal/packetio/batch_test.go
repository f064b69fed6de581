package packetio

import (
	"errors"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// A stubborn is a socket that refuses to send to some peers.
type stubborn struct {
	refuse map[uint16]error // errors by the peer's port
	sent   []uint16
}

func (s *stubborn) Write(ms []udp.Message) (int, error) {
	for i := range ms {
		port := ms[i].Peer.Port()
		if err := s.refuse[port]; err != nil {
			return i, err
		}
		s.sent = append(s.sent, port)
	}
	return len(ms), nil
}

// If the kernel refuses a message, only that message is affected. If its buffer is full, all
// remaining messages are dropped.
func TestRefusedMessages(t *testing.T) {
	conn := &stubborn{refuse: map[uint16]error{2: syscall.EPERM}}
	o := NewBatch(conn, 8, 1<<16)
	fill := func() {
		for port := range uint16(5) {
			o.AddError(netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 66}), port), netip.Addr{}, transfer.NotDefined, "x")
		}
		o.Flush()
	}
	fill()
	if string(toBytes(conn.sent)) != "\x00\x01\x03\x04" || o.Counts.Unsent != 1 || !errors.Is(o.Err, syscall.EPERM) {
		t.Errorf("sent to %v, %d lost, %v", conn.sent, o.Counts.Unsent, o.Err)
	}
	conn.sent, conn.refuse = nil, map[uint16]error{3: os.ErrDeadlineExceeded}
	fill()
	if string(toBytes(conn.sent)) != "\x00\x01\x02" || o.Counts.Unsent != 1+2 {
		t.Errorf("sent to %v, %d lost", conn.sent, o.Counts.Unsent)
	}
}

func toBytes(ports []uint16) (b []byte) {
	for _, p := range ports {
		b = append(b, byte(p))
	}
	return b
}

func (s *stubborn) Limits() udp.Limits { return udp.Limits{Segments: 1} }
