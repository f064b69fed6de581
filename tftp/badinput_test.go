package tftp

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// realPeer returns a peer on the loopback interface.
func realPeer(t *testing.T, l *Listener) *rawPeer {
	t.Helper()
	conn, err := udp.Listen(t.Context(), netip.MustParseAddrPort("127.0.0.1:0"), udp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return newRawPeer(t, conn, l.Addr())
}

// Nonsense at the port for requests: answered by an ERROR where there is
// something to answer, and the server continues.
func TestBadRequests(t *testing.T) {
	long := strings.Repeat("x", 3000)
	tests := []struct {
		name   string
		packet []byte
		code   int // -1: no answer
	}{
		{"empty", nil, -1},
		{"one byte", []byte{0}, -1},
		{"opcode 0", []byte{0, 0}, -1},
		{"opcode only", []byte{0, 1}, 4},
		{"opcode 7", []byte{0, 7, 1, 2}, 4},
		{"opcode in the wrong order", []byte{1, 0, 'a', 0, 'o', 0}, 4},
		{"no name", fields([]byte{0, 1}, "", "octet"), 4},
		{"name unterminated", []byte("\x00\x01image"), 4},
		{"no mode", fields([]byte{0, 1}, "image"), 4},
		{"mode unterminated", []byte("\x00\x01image\x00octet"), 4},
		{"mode mail", fields([]byte{0, 2}, "image", "mail"), 4},
		{"oversized", rrq(long), 4},
		{"oversized options", rrq("image", "blksize", long), 4},
		{"datagram of 60 KB", rrq(strings.Repeat(long, 20)), 4},
		{"DATA", data(1, []byte("x")), 4},
		{"ACK", ack(1), 4},
		{"OACK", oack("blksize", "512"), 4},
		{"ERROR", errorPacket(0, "x"), -1},
		{"short ERROR", []byte{0, 5}, -1},
		{"missing file", rrq("missing"), 1},
	}
	bothWays(t, func(t *testing.T, plain bool) {
		mem := store.Mem(0)
		fillStore(t, mem, "image", []byte("image"))
		l := serve(t, Server{Store: mem, Plain: plain})
		for _, test := range tests {
			p := realPeer(t, l)
			port := p.to
			p.send(test.packet)
			if test.code >= 0 {
				p.wantError(test.name, transfer.ErrorCode(test.code))
				p.to = port
			}
			// The same peer asks for something: were there an answer to the
			// nonsense, it would come first.
			p.send(rrq("image"))
			p.want("answer after "+test.name, data(1, []byte("image")))
			p.send(ack(1))
		}
	})
}

// Options that are unknown, malformed or out of range are passed over, and
// the rest is agreed on.
func TestOddOptions(t *testing.T) {
	mem := store.Mem(0)
	b := content("image", 700)
	fillStore(t, mem, "image", b)
	l := serve(t, Server{Store: mem})
	tests := []struct{ request, answer []byte }{
		{rrq("image", "tsize", "enable"), data(1, b[:512])},
		{rrq("image", "blksize", "7"), data(1, b[:512])},
		{rrq("image", "blksize", "65465"), data(1, b[:512])},
		{rrq("image", "blksize", "-512"), data(1, b[:512])},
		{rrq("image", "multicast", ""), data(1, b[:512])},
		{rrq("image", "windowsize", "0"), data(1, b[:512])},
		{rrq("image", "timeout", "256"), data(1, b[:512])},
		{rrq("image", "blksize"), data(1, b[:512])},
		{append(rrq("image"), "blksize\x00600"...), data(1, b[:512])},
		{rrq("image", "BLKSIZE", "600", "unknown", "1", "TSize", "0"), oack("blksize", "600", "tsize", "700")},
		{rrq("image", "blksize", "600", "blksize", "800"), oack("blksize", "600")},
		{packet(1, "image", "OCTET", nil), data(1, b[:512])},
	}
	for _, test := range tests {
		p := realPeer(t, l)
		p.send(test.request)
		p.want(fmt.Sprintf("%q", test.request), test.answer)
		p.send(errorPacket(0, "enough"))
	}
}

// Nonsense in the midst of transfers: each is ignored or ends that transfer by
// an ERROR, others and the server continue.
func TestBadPacketsInTransfers(t *testing.T) {
	long := make([]byte, 2000)
	tests := []struct {
		name   string
		packet []byte
		ends   bool // a write; a read ignores them all
	}{
		{"empty", nil, false},
		{"one byte", []byte{0}, false},
		{"opcode only", []byte{0, 3}, false},
		{"three bytes", []byte{0, 4, 0}, false},
		{"opcode 99", []byte{0, 99, 0, 1}, false},
		{"a request", rrq("image"), false},
		{"ACK never sent", ack(9), false},
		{"ACK far off", ack(40000), false},
		{"OACK", oack("blksize", "8"), false},
		{"DATA of the future", data(9, long[:512]), false},
		{"DATA of the past", data(0, long[:512]), false},
		{"DATA far off", data(60000, long[:512]), false},
		{"DATA too long", data(2, long), true},
	}
	bothWays(t, func(t *testing.T, plain bool) {
		mem := store.Mem(0)
		b := content("image", 1200)
		fillStore(t, mem, "image", b)
		l := serve(t, Server{Store: mem, Upload: OverwriteUploads, Plain: plain})
		for _, test := range tests {
			p := realPeer(t, l)
			p.send(rrq("image"))
			p.want("first block", data(1, b[:512]))
			p.send(test.packet)
			p.send(ack(1))
			p.want("second block after "+test.name, data(2, b[512:1024]))
			p.send(ack(2))
			p.want("last block", data(3, b[1024:]))
			p.send(ack(3))

			p = realPeer(t, l)
			p.send(wrq("new"))
			p.want("ACK 0", ack(0))
			p.send(data(1, b[:512]))
			p.want("ACK 1", ack(1))
			p.send(test.packet)
			if test.ends {
				p.wantError(test.name, transfer.IllegalOperation)
				p.send(data(2, b[512:1000]))
				p.wantError("what follows", transfer.UnknownID)
				continue
			}
			p.send(data(2, b[512:1000]))
			for got := p.next(patience); !bytes.Equal(got, ack(2)); got = p.next(patience) {
				if !bytes.Equal(got, ack(1)) { // what repeats may be acknowledged again
					t.Fatalf("after %s: %q, want ACK 2", test.name, got)
				}
			}
			wantFile(t, mem, "new", b[:1000])
		}
	})
}

// An answer comes from the address that was asked, not from another of the
// host: some clients take no other.
func TestAnswersFromAddressAsked(t *testing.T) {
	if !udp.CanSharePort {
		t.Skip("this path does not learn the address that was asked")
	}
	mem := store.Mem(0)
	fillStore(t, mem, "image", []byte("image"))
	l := serveAt(t, Server{Store: mem}, ":0")
	for _, ip := range []string{"127.0.0.1", "127.0.0.2", "127.9.8.7"} {
		p := realPeer(t, l)
		asked := netip.MustParseAddr(ip)
		p.to = netip.AddrPortFrom(asked, l.Addr().Port())
		p.send(rrq("image"))
		p.want("answer", data(1, []byte("image")))
		if p.to.Addr() != asked {
			t.Errorf("asked %v, answered from %v", asked, p.to)
		}
		p.send(ack(1))
		p.to = netip.AddrPortFrom(asked, l.Addr().Port())
		p.send(rrq("missing"))
		p.wantError("missing", transfer.FileNotFound)
		if p.to.Addr() != asked {
			t.Errorf("asked %v, refused from %v", asked, p.to)
		}
		p.to = netip.AddrPortFrom(asked, l.Addr().Port())
		p.send([]byte{0, 77})
		p.wantError("nonsense", transfer.IllegalOperation)
		if p.to.Addr() != asked {
			t.Errorf("asked %v, answered from %v", asked, p.to)
		}
		here := store.Mem(0)
		var c Client
		if _, err := c.Get(context.Background(), Target{Host: ip, Port: l.Addr().Port(), Name: "image"}, into(here, "image")); err != nil {
			t.Error(err)
		}
		c.Wait()
	}
}
