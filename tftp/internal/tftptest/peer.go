package tftptest

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// Patience is how long a test waits for an event that should happen at once. It is long because
// machines may be slow; only a failing test waits that long.
const Patience = 20 * time.Second

// A Peer plays one end of a TFTP transfer in a test: the test sends its packets one by one, over any
// kind of socket.
type Peer struct {
	T    testing.TB
	Conn packetio.Socket
	in   []udp.Message
	door netip.AddrPort // destination of requests
	To   netip.AddrPort // destination of Send
	Last []byte         // the packet that News, Want or WantError received last
}

// NewPeer returns a peer that sends from conn. The argument to is the server's address and port for
// requests, to which the peer sends at first.
func NewPeer(t testing.TB, conn packetio.Socket, to netip.AddrPort) *Peer {
	p := &Peer{T: t, Conn: conn, door: to, To: to}
	p.in = []udp.Message{{Data: make([]byte, 1<<16)}}
	return p
}

// Close closes the socket.
func (p *Peer) Close() { _ = p.Conn.Close() }

// Send sends a datagram to the source of the latest datagram received, or to the server's port for
// requests if none was received since NewPeer or Ask.
func (p *Peer) Send(b []byte) {
	p.T.Helper()
	if _, err := p.Conn.Write([]udp.Message{{Peer: p.To, Data: b}}); err != nil {
		p.T.Fatal(err)
	}
}

// Next returns the next datagram, or nil if no datagram arrives within the time `wait`. Send then
// sends to the source of that datagram.
func (p *Peer) Next(wait time.Duration) []byte {
	p.T.Helper()
	deadline := time.Now().Add(wait)
	for {
		n, err := p.Conn.Read(p.in, deadline)
		if err != nil {
			p.T.Fatal(err)
		}
		if n > 0 {
			p.To = p.in[0].Peer
			return bytes.Clone(p.in[0].Data)
		}
		if !time.Now().Before(deadline) {
			return nil
		}
	}
}

// News waits for a datagram that differs from the previous one. It skips repeats, because on a slow
// machine the other end repeats its packets.
func (p *Peer) News() []byte {
	p.T.Helper()
	for {
		got := p.Next(Patience)
		if got == nil || !bytes.Equal(got, p.Last) {
			p.Last = got
			return got
		}
	}
}

// Want checks that the next datagram is b. Like News, it skips repeats of the previous datagram,
// unless b is such a repeat.
func (p *Peer) Want(what string, b []byte) {
	p.T.Helper()
	if bytes.Equal(b, p.Last) {
		p.Last = nil
	}
	if got := p.News(); !bytes.Equal(got, b) {
		p.T.Fatalf("%s: got %.60q, want %.60q", what, got, b)
	}
}

// WantError checks that the next datagram is an ERROR packet with the given code. Like News, it
// skips repeats of the previous datagram, unless that was an ERROR.
func (p *Peer) WantError(what string, code transfer.ErrorCode) {
	p.T.Helper()
	if transfer.OpcodeOf(p.Last) == transfer.ErrorPacket {
		p.Last = nil
	}
	got := p.News()
	if transfer.OpcodeOf(got) != transfer.ErrorPacket || len(got) < 5 || got[3] != byte(code) || got[len(got)-1] != 0 {
		p.T.Fatalf("%s: got %.60q, want ERROR %d", what, got, code)
	}
}

// WantNothing checks that no datagram arrives within the time `wait`.
func (p *Peer) WantNothing(what string, wait time.Duration) {
	p.T.Helper()
	if got := p.Next(wait); got != nil {
		p.T.Fatalf("%s: got %.60q, want nothing", what, got)
	}
}

// Port returns the port that p sends from.
func (p *Peer) Port() uint16 { return p.Conn.LocalAddr().Port() }

// Ask sends a request to the server's port.
func (p *Peer) Ask(b []byte) {
	p.T.Helper()
	p.To = p.door
	p.Send(b)
}

// Read receives a file from block 1 on, in blocks and windows of the given sizes, and acknowledges
// the end of each window and of the file.
func (p *Peer) Read(file []byte, block, window int) {
	p.T.Helper()
	last := len(file)/block + 1
	for n := 1; n <= last; n++ {
		p.Want(fmt.Sprint("block ", n), Data(n, file[(n-1)*block:min(n*block, len(file))]))
		if n%window == 0 || n == last {
			p.Send(ACK(n))
		}
	}
}

// Write sends a file in lock-step, and checks that each block is acknowledged.
func (p *Peer) Write(file []byte, block int) {
	p.T.Helper()
	for n := 1; n <= len(file)/block+1; n++ {
		p.Send(Data(n, file[(n-1)*block:min(n*block, len(file))]))
		p.Want(fmt.Sprint("ACK ", n), ACK(n))
	}
}

// RRQ returns a request to read a file in mode octet. RRQ and the functions below build packets as
// peers send and expect them.
func RRQ(name string, options ...string) []byte { return Packet(1, name, "octet", options) }

// WRQ returns a request to write a file in mode octet.
func WRQ(name string, options ...string) []byte { return Packet(2, name, "octet", options) }

// OACK returns an OACK packet with the given options.
func OACK(options ...string) []byte { return Fields([]byte{0, 6}, options...) }

// Packet returns a request with any opcode and mode.
func Packet(op byte, name, mode string, options []string) []byte {
	return Fields(Fields([]byte{0, op}, name, mode), options...)
}

// Fields appends each field to b, followed by a NUL.
func Fields(b []byte, fields ...string) []byte {
	for _, f := range fields {
		b = append(append(b, f...), 0)
	}
	return b
}

// Data returns a DATA packet with a block of a file.
func Data(block int, b []byte) []byte {
	return append([]byte{0, 3, byte(block >> 8), byte(block)}, b...)
}

// ACK returns the packet that acknowledges a block.
func ACK(block int) []byte { return []byte{0, 4, byte(block >> 8), byte(block)} }

// ErrorPacket returns an ERROR packet, which ends a transfer.
func ErrorPacket(code byte, msg string) []byte { return Fields([]byte{0, 5, 0, code}, msg) }
