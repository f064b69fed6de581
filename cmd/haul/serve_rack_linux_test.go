//go:build linux && !haul_portable

package main

import (
	"encoding/binary"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// A rack is a set of thousands of clients that fetch one file in lock-step over one socket. Each
// has its own address on the loopback interface.
type rack struct {
	t       *testing.T
	conn    *udp.Conn
	in      []udp.Message
	server  netip.AddrPort
	request []byte
	content string
	block   map[netip.Addr]int // latest block received by each client
	ports   map[netip.Addr]netip.AddrPort
}

func newRack(t *testing.T, server, name, content string) *rack {
	t.Helper()
	conn, err := udp.Listen(t.Context(), netip.MustParseAddrPort("0.0.0.0:0"), udp.Config{Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &rack{
		t: t, conn: conn, server: netip.MustParseAddrPort(server), content: content,
		request: []byte("\x00\x01" + name + "\x00octet\x00"),
		block:   make(map[netip.Addr]int), ports: make(map[netip.Addr]netip.AddrPort),
	}
	c.in = make([]udp.Message, conn.Limits().Messages)
	for i := range c.in {
		c.in[i].Data = make([]byte, max(conn.Limits().Datagram, 1024))
	}
	return c
}

// member returns the address of a client.
func member(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 1, byte(i >> 8), byte(i)}) }

// reach runs the first n clients until each has received a block.
func (c *rack) reach(n, block int) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		behind := 0
		for i := range n {
			if c.block[member(i)] < block {
				c.ask(member(i))
				if behind++; behind%64 == 0 {
					c.take(time.Now())
				}
			}
		}
		if behind == 0 {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%d of %d clients do not get block %d", behind, n, block)
		}
		c.take(time.Now().Add(100 * time.Millisecond))
	}
}

// ask makes a client send the packet that requests its next block.
func (c *rack) ask(from netip.Addr) {
	c.t.Helper()
	m := udp.Message{Peer: c.server, Local: from, Data: c.request}
	if at := c.block[from]; at > 0 {
		m.Peer, m.Data = c.ports[from], []byte{0, 4, byte(at >> 8), byte(at)}
	}
	if _, err := c.conn.Write([]udp.Message{m}); err != nil {
		c.t.Fatal(err)
	}
}

// take handles received packets, and waits for some until the given time.
func (c *rack) take(until time.Time) {
	c.t.Helper()
	for {
		n, err := c.conn.Read(c.in, until)
		if err != nil {
			c.t.Fatal(err)
		}
		if n == 0 {
			return
		}
		for _, m := range c.in[:n] {
			for b := range m.Datagrams() {
				c.receive(m.Local, m.Peer, b)
			}
		}
		until = time.Now()
	}
}

func (c *rack) receive(to netip.Addr, peer netip.AddrPort, b []byte) {
	c.t.Helper()
	if transfer.OpcodeOf(b) != transfer.Data {
		c.t.Fatalf("%v got %.60q", to, b)
	}
	block := int(binary.BigEndian.Uint16(b[2:]))
	if block != c.block[to]+1 {
		return // a repetition
	}
	at := (block - 1) * transfer.DefaultBlockSize
	if want := c.content[at:min(at+transfer.DefaultBlockSize, len(c.content))]; string(b[4:]) != want {
		c.t.Fatalf("%v got %.60q as block %d, want %.60q", to, b[4:], block, want)
	}
	c.block[to], c.ports[to] = block, peer
}

// finish makes the clients acknowledge their last block.
func (c *rack) finish(n int) {
	for i := range n {
		c.ask(member(i))
	}
}

// A few descriptors suffice for thousands of clients of one file, and for one that fetches another
// file meanwhile.
func TestServeRack(t *testing.T) {
	const limit, clients = 1024, 3000
	content := strings.Repeat("all of them boot this. ", 50) // three blocks
	dir := servedDir(t, map[string]string{"kernel": content, "other": "another file"})
	s := startChild(t, childOptions{openFiles: limit}, dir, "--metrics", "127.0.0.1:0")
	c := newRack(t, s.addr, "kernel", content)
	c.reach(clients, 1)
	s.wantMetric(`haul_transfers_live{direction="read",protocol="tftp"} 3000`)
	if n := s.openFiles(); n > 100 {
		t.Errorf("%d descriptors for %d readers of one file", n, clients)
	}
	s.wantGet("other", "another file")
	c.reach(clients, 3)
	c.finish(clients)
	s.wantMetric(`haul_transfers_live{direction="read",protocol="tftp"} 0`)
	text := s.stop()
	for _, bad := range []string{"panic", "too many", "outcome=failed"} {
		if strings.Contains(text, bad) {
			t.Errorf("the server said %q", bad)
		}
	}
}
