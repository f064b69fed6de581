package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	opRRQ = iota + 1
	opWRQ
	opDATA
	opACK
	opERROR
	opOACK
)

const (
	codeUndefined = 0
	codeNotFound  = 1
	codeDenied    = 2
)

const (
	defaultBlock = 512
	minBlock     = 8
	maxBlock     = 65464 // RFC 2348

	tries     = 5
	retryTime = time.Second
	dallyTime = 300 * time.Millisecond // how long after an upload the server repeats a lost last ACK
)

// A request is a parsed RRQ or WRQ.
type request struct {
	write     bool
	name      string
	block     int   // blksize in bytes; defaultBlock if the client did not request blksize
	size      int64 // tsize that the client requested
	asksBlock bool
	asksSize  bool
}

func parseRequest(p []byte) (request, error) {
	if len(p) < 2 {
		return request{}, errors.New("too short")
	}
	op := binary.BigEndian.Uint16(p)
	if op != opRRQ && op != opWRQ {
		return request{}, errors.New("not a request")
	}
	fields := strings.Split(string(p[2:]), "\x00")
	if len(fields) < 3 {
		return request{}, errors.New("no name or mode")
	}
	req := request{write: op == opWRQ, name: fields[0], block: defaultBlock}
	for options := fields[2:]; len(options) >= 2; options = options[2:] {
		n, err := strconv.ParseInt(options[1], 10, 64)
		if err != nil {
			continue
		}
		switch strings.ToLower(options[0]) {
		case "blksize":
			if n >= minBlock {
				req.block, req.asksBlock = int(min(n, maxBlock)), true
			}
		case "tsize":
			req.size, req.asksSize = n, true
		}
	}
	return req, nil
}

// confirm returns an OACK, or nil if no option was requested. It leaves out the size of an empty
// file, because curl takes a tsize of 0 for an error.
func (r request) confirm(size int64) []byte {
	p := []byte{0, opOACK}
	if r.asksBlock {
		p = fmt.Appendf(p, "blksize\x00%d\x00", r.block)
	}
	if r.asksSize && size > 0 {
		p = fmt.Appendf(p, "tsize\x00%d\x00", size)
	}
	if len(p) == 2 {
		return nil
	}
	return p
}

func ackPacket(n uint16) []byte {
	return binary.BigEndian.AppendUint16([]byte{0, opACK}, n)
}

func errorPacket(code byte, text string) []byte {
	return append(append([]byte{0, opERROR, 0, code}, text...), 0)
}

func code(err error) byte {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return codeNotFound
	case errors.Is(err, fs.ErrPermission):
		return codeDenied
	}
	return codeUndefined
}

// A refusal is the error for a transfer that the peer ended with an ERROR packet.
type refusal struct{ text string }

// Error returns the peer's message.
func (r *refusal) Error() string { return "peer gave up: " + r.text }

// A transfer is one file on its way to or from a peer, over a socket of its own.
type transfer struct {
	conn  *net.UDPConn
	peer  *net.UDPAddr
	block int
	buf   []byte
}

// exchange sends a packet, and repeats it until the answer with the given operation and block
// number arrives. It returns that answer.
func (t *transfer) exchange(p []byte, op, number uint16) ([]byte, error) {
	for range tries {
		if _, err := t.conn.WriteToUDP(p, t.peer); err != nil {
			return nil, err
		}
		answer, err := t.await(op, number)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return answer, err
		}
	}
	return nil, fmt.Errorf("no answer to %d packets", tries)
}

// await reads packets until the one with the given operation and number arrives, or retryTime is
// over.
func (t *transfer) await(op, number uint16) ([]byte, error) {
	if t.buf == nil {
		t.buf = make([]byte, max(t.block, defaultBlock)+4)
	}
	if err := t.conn.SetReadDeadline(time.Now().Add(retryTime)); err != nil {
		return nil, err
	}
	for {
		n, from, err := t.conn.ReadFromUDP(t.buf)
		if err != nil {
			return nil, err
		}
		p := t.buf[:n]
		if n < 4 || from.Port != t.peer.Port || !from.IP.Equal(t.peer.IP) {
			continue
		}
		switch got := binary.BigEndian.Uint16(p); {
		case got == opERROR:
			return nil, &refusal{string(bytes.TrimRight(p[4:], "\x00"))}
		case got == op && binary.BigEndian.Uint16(p[2:]) == number:
			return p, nil
		}
	}
}

// send sends everything that r has, a block at a time.
func (t *transfer) send(r io.Reader) error {
	p := make([]byte, t.block+4)
	for number := uint16(1); ; number++ {
		n, err := io.ReadFull(r, p[4:])
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return err
		}
		binary.BigEndian.PutUint16(p, opDATA)
		binary.BigEndian.PutUint16(p[2:], number)
		if _, err := t.exchange(p[:4+n], opACK, number); err != nil {
			return err
		}
		if n < t.block {
			return nil
		}
	}
}

// receive sends the first answer and receives up to limit bytes. The result `last` is the last
// acknowledgement, which finish sends.
func (t *transfer) receive(first []byte, limit int) (data, last []byte, err error) {
	answer := first
	for number := uint16(1); ; number++ {
		p, err := t.exchange(answer, opDATA, number)
		if err != nil {
			return nil, nil, err
		}
		if len(data)+len(p)-4 > limit {
			return nil, nil, fmt.Errorf("an upload may have %d bytes", limit)
		}
		data = append(data, p[4:]...)
		answer = ackPacket(number)
		if len(p)-4 < t.block {
			return data, answer, nil
		}
	}
}

// finish sends the last ACK. For the time dallyTime, it sends the ACK again when the last block
// arrives again, because then the ACK was lost.
func (t *transfer) finish(last []byte) error {
	if _, err := t.conn.WriteToUDP(last, t.peer); err != nil {
		return err
	}
	deadline := time.Now().Add(dallyTime)
	for t.conn.SetReadDeadline(deadline) == nil {
		n, from, err := t.conn.ReadFromUDP(t.buf)
		if err != nil {
			break
		}
		if n >= 4 && from.Port == t.peer.Port && t.buf[1] == opDATA && bytes.Equal(t.buf[2:4], last[2:]) {
			_, _ = t.conn.WriteToUDP(last, t.peer)
		}
	}
	return nil
}
