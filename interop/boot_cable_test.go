//go:build linux

package interop

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// A heldCable is a cable between machines and the network that passes through the test,
// which sees and changes what a machine sends. One machine at a time is at its end.
type heldCable struct {
	tap  *os.File     // the network's end
	plug net.Listener // where machines are plugged in
	pass func(frame []byte) bool
	conn atomic.Pointer[net.UnixConn] // of the machine that is plugged in
}

// holdCable replaces the machine's cable by one that passes through the test. pass may
// change a frame that a machine sends; it returns false for one that is lost.
func (b *bootNet) holdCable(t *testing.T, pass func(frame []byte) bool) {
	t.Helper()
	c := &heldCable{pass: pass}
	b.machine.do(t, func() { c.tap = openTunnel(t, cable, unix.IFF_TAP) })
	socket := filepath.Join(t.TempDir(), "cable")
	var err error
	if c.plug, err = net.Listen("unix", socket); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{}, 2)
	go func() { c.fromMachines(); done <- struct{}{} }()
	go func() { c.toMachines(); done <- struct{}{} }()
	t.Cleanup(func() {
		c.plug.Close()
		c.tap.Close()
		if conn := c.conn.Load(); conn != nil {
			conn.Close()
		}
		<-done
		<-done
	})
	b.netdev = "stream,addr.type=unix,addr.path=" + socket
}

// lengthPrefix is the size of the length in front of each frame that QEMU sends and takes.
const lengthPrefix = 4

// fromMachines passes on what machines send, until the cable is taken away.
func (c *heldCable) fromMachines() {
	for {
		conn, err := c.plug.Accept()
		if err != nil {
			return
		}
		c.conn.Store(conn.(*net.UnixConn))
		c.fromMachine(conn)
		conn.Close()
	}
}

// fromMachine passes on what one machine sends, until that is switched off.
func (c *heldCable) fromMachine(conn net.Conn) {
	buf := make([]byte, 1<<16)
	for {
		if _, err := io.ReadFull(conn, buf[:lengthPrefix]); err != nil {
			return
		}
		n := binary.BigEndian.Uint32(buf)
		if int(n) > len(buf) {
			return // no frame of Ethernet is so long
		}
		if _, err := io.ReadFull(conn, buf[:n]); err != nil {
			return
		}
		if c.pass(buf[:n]) {
			if _, err := c.tap.Write(buf[:n]); err != nil {
				return
			}
		}
	}
}

// toMachines passes on what comes for a machine, until the cable is taken away. While no
// machine is there, packets are lost.
func (c *heldCable) toMachines() {
	buf := make([]byte, 1<<16)
	for {
		n, err := c.tap.Read(buf[lengthPrefix:])
		if err != nil {
			return
		}
		binary.BigEndian.PutUint32(buf, uint32(n))
		if conn := c.conn.Load(); conn != nil {
			_, _ = conn.Write(buf[:lengthPrefix+n])
		}
	}
}

// etherHeader is the size of an Ethernet header: two addresses and a type.
const etherHeader = 14

// datagram returns the port that a frame is for, and what it holds, if that is UDP over
// IPv4.
func datagram(frame []byte) (port uint16, data []byte, ok bool) {
	if len(frame) < etherHeader || binary.BigEndian.Uint16(frame[12:]) != unix.ETH_P_IP {
		return 0, nil, false
	}
	_, to, data, ok := cutUDP(frame[etherHeader:])
	return to.Port(), data, ok
}

// blankOptions replaces options of the DHCP packet in a frame with pads (RFC 2132 §3.1),
// and takes the checksum away (RFC 768).
func blankOptions(frame []byte, codes ...byte) {
	const (
		options  = 240 // where they begin, behind the cookie
		pad, end = 0, 255
	)
	_, data, ok := datagram(frame)
	if !ok {
		return
	}
	for at := options; at+1 < len(data) && data[at] != end; {
		if data[at] == pad {
			at++
			continue
		}
		next := at + 2 + int(data[at+1])
		if slices.Contains(codes, data[at]) && next <= len(data) {
			clear(data[at:next])
		}
		at = next
	}
	clear(frame[etherHeader+ipHeader+6:][:2])
}
