//go:build linux

package interop

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An asker is a client that sees each packet and its source.
type asker struct {
	c    *net.UDPConn
	to   netip.AddrPort // destination of the next packet
	only bool           // c is connected: the kernel drops other packets
	last []byte         // last packet sent, in case it must be repeated

	repeats int // of requests without an answer in time
}

// ask opens an asker on an address of the node, for a server.
func (n *node) ask(t *testing.T, from, server string) *asker {
	t.Helper()
	a := &asker{to: n.zoned(t, endpoint(server))}
	local := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))
	var err error
	n.do(t, func() { a.c, err = net.ListenUDP("udp", local) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.c.Close() })
	return a
}

// askOnly does the same with a socket that only receives packets from the server's address and
// port.
func (n *node) askOnly(t *testing.T, server string) *asker {
	t.Helper()
	a := &asker{to: n.zoned(t, endpoint(server)), only: true}
	var err error
	n.do(t, func() { a.c, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(a.to)) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.c.Close() })
	return a
}

// zoned sets a link-local address's zone to the number of its interface. Package net caches names
// without regard to the node.
func (n *node) zoned(t *testing.T, a netip.AddrPort) netip.AddrPort {
	t.Helper()
	if a.Addr().Zone() == "" {
		return a
	}
	var i *net.Interface
	var err error
	n.do(t, func() { i, err = net.InterfaceByName(a.Addr().Zone()) })
	if err != nil {
		t.Fatal(err)
	}
	return netip.AddrPortFrom(a.Addr().WithZone(strconv.Itoa(i.Index)), a.Port())
}

// Opcodes (RFC 1350 §5, RFC 2347).
const (
	readOp = iota + 1
	writeOp
	dataOp
	ackOp
	errorOp
	optionsOp
)

// asking builds a request, with names and values of options.
func asking(op byte, name string, options ...string) []byte {
	words := append([]string{name, "octet"}, options...)
	return append([]byte{0, op}, strings.Join(words, "\x00")+"\x00"...)
}

// numbered builds a DATA or ACK.
func numbered(op byte, number int, data []byte) []byte {
	return append([]byte{0, op, byte(number >> 8), byte(number)}, data...)
}

func (a *asker) send(b []byte) error {
	a.last = b
	var err error
	if a.only {
		_, err = a.c.Write(b)
	} else {
		_, err = a.c.WriteToUDPAddrPort(b, a.to)
	}
	return err
}

// awaitNobody returns once a host reports that no program listens on an address.
func (n *node) awaitNobody(t *testing.T, server string) {
	t.Helper()
	a := n.askOnly(t, server)
	var err error
	for began := time.Now(); time.Since(began) < waitMost; {
		if err = a.send(asking(readOp, "nowhere")); err == nil {
			_ = a.c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			_, err = a.c.Read(make([]byte, 600))
		}
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
	}
	t.Fatalf("%s: %v, want %v", server, err, syscall.ECONNREFUSED)
}

// A reply is a packet from the server.
type reply struct {
	op, number int // block number, or error code
	data       []byte
	from       netip.AddrPort // without a zone
}

// text returns the text of an ERROR.
func (r reply) text() string { return strings.TrimSuffix(string(r.data), "\x00") }

// option returns an option of an OACK, or "" if it is missing.
func (r reply) option(name string) string {
	words := strings.Split(string(r.data), "\x00")
	for i := 0; i+1 < len(words); i += 2 {
		if words[i] == name {
			return words[i+1]
		}
	}
	return ""
}

// next returns the server's next packet. If none arrives, it repeats its own last packet, as any
// client would.
func (a *asker) next() (reply, error) {
	buf := make([]byte, 1<<16)
	for range int(waitMost / time.Second) {
		_ = a.c.SetReadDeadline(time.Now().Add(time.Second))
		n, from, err := a.c.ReadFromUDPAddrPort(buf)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if op := a.last[1]; op == readOp || op == writeOp {
				a.repeats++
			}
			if err := a.send(a.last); err != nil {
				return reply{}, err
			}
			continue
		case err != nil:
			return reply{}, err
		case n < 4:
			return reply{}, fmt.Errorf("a packet of %d bytes", n)
		}
		r := reply{op: int(buf[1]), from: netip.AddrPortFrom(from.Addr().Unmap().WithZone(""), from.Port())}
		switch r.op {
		case optionsOp:
			r.data = bytes.Clone(buf[2:n])
		default:
			r.number, r.data = int(binary.BigEndian.Uint16(buf[2:])), bytes.Clone(buf[4:n])
		}
		return r, nil
	}
	return reply{}, fmt.Errorf("no answer from %v within %v", a.to, waitMost)
}

// begin sends a request and returns the first answer. Later packets are sent to the source of
// that answer.
func (a *asker) begin(op byte, name string, options ...string) (reply, error) {
	if err := a.send(asking(op, name, options...)); err != nil {
		return reply{}, err
	}
	r, err := a.next()
	if err == nil {
		a.to = netip.AddrPortFrom(r.from.Addr().WithZone(a.to.Addr().Zone()), r.from.Port())
	}
	return r, err
}

// read fetches a file block by block, and returns it with the first answer. All packets must come
// from the source of that answer.
func (a *asker) read(name string, options ...string) ([]byte, reply, error) {
	first, err := a.begin(readOp, name, options...)
	if err != nil {
		return nil, first, err
	}
	file, err := a.readOn(first)
	return file, first, err
}

// readOn continues after the first answer.
func (a *asker) readOn(first reply) ([]byte, error) {
	size, window := 512, 1
	if first.op == optionsOp {
		if s := first.option("blksize"); s != "" {
			size, _ = strconv.Atoi(s)
		}
		if s := first.option("windowsize"); s != "" {
			window, _ = strconv.Atoi(s)
		}
		if err := a.send(numbered(ackOp, 0, nil)); err != nil {
			return nil, err
		}
	}
	var file []byte
	for got, r := 0, first; ; {
		switch {
		case r.from != first.from:
			return nil, fmt.Errorf("block %d comes from %v, the first answer came from %v", got+1, r.from, first.from)
		case r.op == errorOp:
			return nil, fmt.Errorf("ERROR %d %q", r.number, r.text())
		case r.op == dataOp && r.number == (got+1)&0xffff:
			got++
			file = append(file, r.data...)
			a.last = numbered(ackOp, got, nil)
			whole := len(r.data) < size
			if !whole && got%window != 0 {
				break
			}
			if err := a.send(a.last); err != nil || whole {
				return file, err
			}
		}
		// Any other block is a repeat, or has overtaken a missing one. The missing one is
		// requested when nothing more arrives.
		var err error
		if r, err = a.next(); err != nil {
			return nil, err
		}
	}
}

// write sends a file block by block, and returns the first answer.
func (a *asker) write(name string, file []byte) (reply, error) {
	const size = 1024
	first, err := a.begin(writeOp, name, "blksize", strconv.Itoa(size))
	if err != nil || first.op != optionsOp || first.option("blksize") != strconv.Itoa(size) {
		return first, errors.Join(err, fmt.Errorf("answered by opcode %d %q", first.op, first.data))
	}
	for n := 1; ; n++ {
		part := file[:min(size, len(file))]
		file = file[len(part):]
		if err := a.send(numbered(dataOp, n, part)); err != nil {
			return first, err
		}
		for {
			r, err := a.next()
			switch {
			case err != nil:
				return first, err
			case r.from != first.from:
				return first, fmt.Errorf("ACK %d comes from %v, the first answer came from %v", n, r.from, first.from)
			case r.op == errorOp:
				return first, fmt.Errorf("ERROR %d %q", r.number, r.text())
			case r.op != ackOp || r.number != n&0xffff:
				continue
			}
			break
		}
		if len(part) < size {
			return first, nil
		}
	}
}

// wantFile reads a file and compares it. It returns the first answer.
func (a *asker) wantFile(t *testing.T, name string, want []byte, options ...string) reply {
	t.Helper()
	asked := a.to
	got, first, err := a.read(name, options...)
	if err != nil {
		t.Errorf("read %s of %v: %v", name, asked, err)
	} else if !bytes.Equal(got, want) {
		t.Errorf("read %s of %v: %d bytes, want %d, or others", name, asked, len(got), len(want))
	}
	return first
}
