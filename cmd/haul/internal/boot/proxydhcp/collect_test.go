package proxydhcp

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
)

// asker returns a socket, and a function that sends it an answer as a server does.
func asker(t *testing.T) (s *socket, answer func()) {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := c.LocalAddr().String()
	if s, err = newSocket(c, 0, false); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	server, err := net.Dial("udp4", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	packet := dhcp.AppendEnd(dhcp.AppendHeader(nil, &dhcp.Header{Op: dhcp.BootReply, HType: 1, HLen: 6}), 0)
	return s, func() {
		if _, err := server.Write(packet); err != nil {
			t.Error(err)
		}
	}
}

func anyPacket(*dhcp.Packet, arrival) bool { return true }

// A request is not sent again after an answer: a server that answers the second request differently
// would look like two servers.
func TestCollectAsksOnce(t *testing.T) {
	t.Parallel() // it waits most of the time
	s, answer := asker(t)
	sent, answered := 0, 0
	offers, err := collect(t.Context(), s, askAgain+askAgain/4, maxOffers, func() error { sent++; answer(); return nil }, func(*dhcp.Packet, arrival) bool {
		if answered == 0 {
			answered = sent
		}
		return true
	})
	if err != nil || len(offers) != 1 || sent != answered {
		t.Errorf("%v, %d answers; %d requests were sent, and %d before the first answer was read", err, len(offers), sent, answered)
	}
}

// A request that nobody answers is sent again.
func TestCollectAsksAgain(t *testing.T) {
	t.Parallel() // it waits most of the time
	s, answer := asker(t)
	ctx, cancel := context.WithCancel(t.Context())
	sent := 0
	_, err := collect(ctx, s, time.Hour, maxOffers, func() error {
		if sent++; sent == 2 {
			cancel()
			answer()
		}
		return nil
	}, anyPacket)
	if !errors.Is(err, context.Canceled) || sent != 2 {
		t.Errorf("%v; %d requests were sent, want 2", err, sent)
	}
}

// When its context ends, collect returns at once.
func TestCollectEnds(t *testing.T) {
	t.Parallel()
	s, answer := asker(t)
	ctx, cancel := context.WithCancel(t.Context())
	// After an answer the next deadline is an hour away.
	_, err := collect(ctx, s, time.Hour, maxOffers, func() error { answer(); return nil }, func(*dhcp.Packet, arrival) bool { cancel(); return true })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// collect returns once it has as many answers as the limit.
func TestCollectEnough(t *testing.T) {
	t.Parallel()
	s, answer := asker(t)
	offers, err := collect(t.Context(), s, time.Hour, 1, func() error { answer(); return nil }, anyPacket)
	if err != nil || len(offers) != 1 {
		t.Errorf("%v, %d answers", err, len(offers))
	}
}

// If a packet of a batch cannot be sent, its error is reported, and the other packets are sent.
func TestSendBatch(t *testing.T) {
	t.Parallel()
	s, _ := asker(t)
	from, to := netip.MustParseAddr("127.0.0.1"), s.conn.LocalAddr().(*net.UDPAddr).AddrPort()
	out, errs := newOutbox(3), make([]error, 3)
	s.add(out, []byte("first"), departure{from: from, to: to}, &errs[0])
	// This is not an address of this machine.
	s.add(out, []byte("lost"), departure{from: netip.MustParseAddr("192.0.2.9"), to: to}, &errs[1])
	s.add(out, []byte("last"), departure{from: from, to: to}, &errs[2])
	s.send(out)
	if errs[0] != nil || errs[1] == nil || !strings.Contains(errs[1].Error(), "send to "+to.String()) || errs[2] != nil {
		t.Errorf("the errors are %v", errs)
	}
	var came []string
	for in := newInbox(2); len(came) < 2; {
		packets, err := s.receive(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range packets {
			came = append(came, string(p.packet))
		}
	}
	if !slices.Equal(came, []string{"first", "last"}) {
		t.Errorf("%q came", came)
	}
}
