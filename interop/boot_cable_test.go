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

// A heldCable is a cable between machines and the network that passes through the test, which
// sees and changes what a machine sends. Only one machine at a time is connected.
type heldCable struct {
	tap  *os.File     // the network's end
	plug net.Listener // machines connect to it
	pass func(frame []byte) bool
	conn atomic.Pointer[net.UnixConn] // of the connected machine
}

// holdCable replaces the machine's cable with one that passes through the test. pass may change a
// frame that a machine sends; if it returns false, the frame is lost.
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

// lengthPrefix is the size of the length before each frame that QEMU sends and receives.
const lengthPrefix = 4

// fromMachines forwards frames from machines until the cable is removed.
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

// fromMachine forwards frames from one machine until it is switched off.
func (c *heldCable) fromMachine(conn net.Conn) {
	buf := make([]byte, 1<<16)
	for {
		if _, err := io.ReadFull(conn, buf[:lengthPrefix]); err != nil {
			return
		}
		n := binary.BigEndian.Uint32(buf)
		if int(n) > len(buf) {
			return // no Ethernet frame is that long
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

// toMachines forwards frames to the machine until the cable is removed. While no machine is
// connected, frames are lost.
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

// datagram returns the destination port and the data of a frame, if it contains UDP over IPv4.
func datagram(frame []byte) (port uint16, data []byte, ok bool) {
	if len(frame) < etherHeader || binary.BigEndian.Uint16(frame[12:]) != unix.ETH_P_IP {
		return 0, nil, false
	}
	_, to, data, ok := cutUDP(frame[etherHeader:])
	return to.Port(), data, ok
}

// blankOptions replaces options of the DHCP packet in a frame with pads (RFC 2132 §3.1), and
// removes the checksum (RFC 768).
func blankOptions(frame []byte, codes ...byte) {
	const (
		options  = 240 // where the options begin, after the cookie
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
