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
	"time"
)

// Opcodes of RFC 1350 and RFC 2347.
const (
	rawRead  = 1
	rawWrite = 2
	rawData  = 3
	rawAck   = 4
	rawFault = 5
	rawOack  = 6
)

const (
	rawResend  = 250 * time.Millisecond // a rawPeer repeats its packet after this silence
	rawBlock   = 512                    // block size without options, in bytes
	rawMessage = 4 + 65464              // longest packet, in bytes
)

// A rawPeer speaks TFTP packet by packet, so that a test can hold a transfer anywhere, spoil its
// packets, or vanish. It is as simple as a boot ROM: it drops packets out of order, and its timer
// does the rest.
type rawPeer struct {
	conn     *net.UDPConn
	server   netip.AddrPort // where requests go
	transfer netip.AddrPort // source of the answer; invalid before
	end      time.Time      // when to give up
	spoil    *spoiler       // nil: packets are not changed
	buf      []byte
	strict   bool // only an OACK counts as an answer
	owed     bool // the server does not know that the transfer is over

	// middle, if set, is called once, when the first block has been acknowledged. An error ends
	// the transfer without notifying the server. again repeats the last packet, to show that the
	// peer is alive.
	middle func(again func()) error
}

// A rawError is an ERROR packet from the server.
type rawError struct {
	code int
	text string
}

func (e *rawError) Error() string { return fmt.Sprintf("server says ERROR %d: %s", e.code, e.text) }

// errVanish makes the peer vanish when middle returns it.
var errVanish = errors.New("vanished")

// newRawPeer opens a socket on a free loopback port.
func newRawPeer(server netip.AddrPort, patience time.Duration) (*rawPeer, error) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	return &rawPeer{conn: c, server: server, end: time.Now().Add(patience), buf: make([]byte, rawMessage)}, nil
}

// renew forgets the old transfer, so that the same port can begin another.
func (p *rawPeer) renew() { p.transfer = netip.AddrPort{} }

func (p *rawPeer) close() { p.conn.Close() }

// rawRequest returns an RRQ or WRQ in octet mode; a negative tsize is left out.
func rawRequest(op int, name string, o options, tsize int64) []byte {
	b := append(binary.BigEndian.AppendUint16(nil, uint16(op)), name...)
	b = append(b, "\x00octet\x00"...)
	add := func(option string, value int64) {
		b = append(b, option...)
		b = append(b, 0)
		b = strconv.AppendInt(b, value, 10)
		b = append(b, 0)
	}
	if o.block > 0 {
		add("blksize", int64(o.block))
	}
	if o.window > 0 {
		add("windowsize", int64(o.window))
	}
	if tsize >= 0 {
		add("tsize", tsize)
	}
	return b
}

func rawAcknowledge(block int64) []byte {
	return []byte{0, rawAck, byte(block >> 8), byte(block)}
}

func rawErrorPacket(code byte, text string) []byte {
	return append([]byte{0, rawFault, 0, code}, text+"\x00"...)
}

// send sends a packet: to the request port before the server has answered, and to the transfer's
// port afterwards. A packet that the kernel drops counts as lost.
func (p *rawPeer) send(b []byte) {
	to := p.server
	if p.transfer.IsValid() {
		to = p.transfer
	}
	for _, b := range p.spoil.out(b) {
		_, _ = p.conn.WriteToUDPAddrPort(b, to)
	}
}

// errQuiet means that nothing arrived in time.
var errQuiet = errors.New("nothing came")

// receive returns the next packet of the transfer, valid until the next call. It returns errQuiet
// if none arrives until the given time, and another error if the peer's patience is over.
func (p *rawPeer) receive(until time.Time) ([]byte, error) {
	for {
		if b := p.spoil.in(nil); b != nil {
			return b, nil
		}
		now := time.Now()
		if now.After(p.end) {
			return nil, errors.New("no end in sight: out of patience")
		}
		if now.After(until) {
			return nil, errQuiet
		}
		if err := p.conn.SetReadDeadline(until); err != nil {
			return nil, err
		}
		n, from, err := p.conn.ReadFromUDPAddrPort(p.buf)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, errQuiet
		}
		if err != nil {
			return nil, err
		}
		if p.transfer.IsValid() && from != p.transfer || n < 4 {
			continue
		}
		if b := p.spoil.in(p.buf[:n]); b != nil {
			p.transfer = from // only now: a lost answer must not count
			return b, nil
		}
	}
}

// rawAgreed parses an OACK. Missing options have their values of RFC 1350.
func rawAgreed(b []byte) (o options, tsize int64) {
	o, tsize = options{block: rawBlock, window: 1}, -1
	words := strings.Split(string(b[2:]), "\x00")
	for i := 0; i+1 < len(words); i += 2 {
		n, _ := strconv.ParseInt(words[i+1], 10, 64)
		switch strings.ToLower(words[i]) {
		case "blksize":
			o.block = int(n)
		case "windowsize":
			o.window = int(n)
		case "tsize":
			tsize = n
		}
	}
	return o, tsize
}

// rawFailure parses an ERROR.
func rawFailure(b []byte) error {
	text, _, _ := bytes.Cut(b[4:], []byte{0})
	return &rawError{int(binary.BigEndian.Uint16(b[2:])), string(text)}
}

// stall calls middle, unless it was called before.
func (p *rawPeer) stall(again func()) error {
	if p.middle == nil {
		return nil
	}
	f := p.middle
	p.middle = nil
	return f(again)
}

// get fetches a file.
func (p *rawPeer) get(name string, ask options) ([]byte, error) {
	var (
		file []byte
		next = int64(1) // next block
		in   = 0        // blocks since the last ACK
		o    = options{block: rawBlock, window: 1}
		last = rawRequest(rawRead, name, ask, 0)
	)
	say := func(b []byte) { last, in = b, 0; p.send(b) }
	say(last)
	resend := time.Now().Add(rawResend)
	for gap := false; ; {
		b, err := p.receive(resend)
		if errors.Is(err, errQuiet) {
			p.send(last)
			resend = time.Now().Add(rawResend)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("get %s: at block %d: %w", name, next, err)
		}
		switch op := b[1]; {
		case op == rawFault:
			return nil, rawFailure(b)
		case op == rawOack && next == 1:
			o, _ = rawAgreed(b)
			p.strict = false
			say(rawAcknowledge(0))
		case op != rawData || p.strict:
		case binary.BigEndian.Uint16(b[2:]) != uint16(next):
			// This block is ahead: one is lost, and the server should be notified once.
			if ahead := int16(binary.BigEndian.Uint16(b[2:]) - uint16(next)); ahead > 0 && !gap {
				gap = true
				say(rawAcknowledge(next - 1))
			}
			continue // no progress: the timer continues
		default:
			file = append(file, b[4:]...)
			over := len(b)-4 < o.block
			next, in, gap = next+1, in+1, false
			if in >= o.window || over || p.middle != nil {
				say(rawAcknowledge(next - 1))
			}
			last = rawAcknowledge(next - 1)
			if over {
				return file, nil
			}
			if err := p.stall(func() { p.send(last) }); err != nil {
				return nil, err
			}
		}
		resend = time.Now().Add(rawResend)
	}
}

// put stores a file, and announces the given size unless it is negative.
func (p *rawPeer) put(name string, file []byte, ask options, tsize int64) error {
	ask.window = max(ask.window, 0)
	opening := rawRequest(rawWrite, name, ask, tsize)
	p.send(opening)
	var (
		base = int64(0) // first unacknowledged block; 0 is the request
		o    = options{block: rawBlock, window: 1}
	)
	blocks := func() int64 { return int64(len(file)/o.block) + 1 }
	flight := func() { // sends all blocks in the window from base on
		for n := base; n < min(base+int64(o.window), blocks()+1); n++ {
			at := (n - 1) * int64(o.block)
			part := file[at:min(int64(len(file)), at+int64(o.block))]
			p.send(append([]byte{0, rawData, byte(n >> 8), byte(n)}, part...))
		}
	}
	resend := time.Now().Add(rawResend)
	for {
		b, err := p.receive(resend)
		if errors.Is(err, errQuiet) {
			if base == 0 {
				p.send(opening)
			} else {
				flight()
			}
			resend = time.Now().Add(rawResend)
			continue
		}
		if err != nil {
			return fmt.Errorf("put %s: at block %d of %d: %w", name, base, blocks(), err)
		}
		acked := base - 1
		switch op := b[1]; {
		case op == rawFault:
			return rawFailure(b)
		case op == rawOack && base == 0:
			o, _ = rawAgreed(b)
			acked = 0
		case op == rawAck:
			// Block numbers have 16 bits, and at most a window of them is open.
			if ahead := int16(binary.BigEndian.Uint16(b[2:]) - uint16(base)); ahead >= 0 && int64(ahead) < max(1, int64(o.window)) {
				acked = base + int64(ahead)
			}
		}
		if acked < base {
			continue
		}
		base = acked + 1
		if base > blocks() {
			return nil
		}
		if base > 1 {
			err := p.stall(func() {
				at := (acked - 1) * int64(o.block)
				p.send(append([]byte{0, rawData, byte(acked >> 8), byte(acked)}, file[at:at+int64(o.block)]...))
			})
			if err != nil {
				return err
			}
		}
		flight()
		resend = time.Now().Add(rawResend)
	}
}

// probe asks for a file's size and receives nothing else, as PXE firmware does.
func (p *rawPeer) probe(name string) (int64, error) {
	for {
		p.send(rawRequest(rawRead, name, options{block: 1428}, 0))
		b, err := p.receive(time.Now().Add(rawResend))
		switch {
		case errors.Is(err, errQuiet):
			continue
		case err != nil:
			return 0, fmt.Errorf("probe %s: %w", name, err)
		case b[1] == rawFault:
			return 0, rawFailure(b)
		case b[1] == rawOack:
			_, size := rawAgreed(b)
			p.send(rawErrorPacket(8, "User aborted the transfer"))
			return size, nil
		}
	}
}
