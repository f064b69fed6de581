package protocol

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/golden"

	"github.com/haul-project/haul/tftp/transfer"
)

// A transcript in testdata/transcripts records the packets between one machine and its peer. Lines
// at the margin are events for the machine; indented lines are its actions.
//
// These lines set the role of the machine, and how it begins:
//
//	file 1100                 it serves reads of a file of 1100 bytes
//	limits blksize=1024 …     largest values that it confirms (blksize, windowsize, timeout),
//	                          and the rollover for peers that do not ask for one
//	refuse tsize,blksize      options that it does not know
//	<- RRQ "f" octet …        a read request makes it a server's Sender
//	<- WRQ "f" octet …        a write request makes it a server's Receiver
//	get "f" octet …           it is a client that reads a file
//	put 1100 "f" octet …      it is a client that writes a file of 1100 bytes
//
// The events; +10ms at the start of a line lets that time pass first:
//
//	<- ACK 1                  a packet arrives: RRQ, WRQ, DATA, ACK, ERROR, OACK, or BYTES in hex
//	+10ms                     only time passes
//	expire                    time passes up to the deadline
//	vanish                    the same, repeated until the machine has no deadline
//	skip 65530                the peer continues correctly up to that block; nothing is recorded
//	store slowly              from here on, data is stored only at a line "stored"
//	stored                    all data received so far is stored
//	abort 3 "disk full"       the driver gives up
//
// The machine's actions:
//
//	-> DATA 1 512 bytes       it sends a packet; options are written as name=value
//	keep 512 bytes at 0       it returns data; "whole" is added to the last data
//	after 1s                  how long it waited for its deadline
//	waits for nothing         it has no deadline
//	done                      it succeeds, or the line says why it failed
//	forgotten                 it no longer answers repeats
func TestTranscripts(t *testing.T) {
	golden.Transcripts(t, func(*testing.T) golden.Transcript { return &play{} })
}

// A machine has the methods that Sender and Receiver have in common.
type machine interface {
	AppendReply(now time.Time, b []byte) []byte
	Deadline() time.Time
	Expire(now time.Time)
	Repeat(now time.Time)
	Abort(code transfer.ErrorCode, msg string, err error)
	Done() (bool, error)
	Stats() transfer.Stats
}

// A play runs one transcript.
type play struct {
	print     func(format string, args ...any)
	now       time.Time
	s         *Sender
	r         *Receiver
	m         machine // the value of s or r
	size      int64
	limits    transfer.Limits
	refused   transfer.OptionSet
	slow      bool
	quiet     bool // nothing is written
	over      bool // the line "done" has been written
	forgotten bool
}

func (p *play) say(format string, args ...any) {
	if !p.quiet {
		p.print(format, args...)
	}
}

// Step runs one line.
func (p *play) Step(line string, say func(format string, args ...any)) error {
	p.print = say
	if p.now.IsZero() {
		p.now = time.Unix(1_000_000, 0)
	}
	if strings.HasPrefix(line, "+") {
		text, rest, _ := strings.Cut(line[1:], " ")
		d, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		p.now = p.now.Add(d)
		if p.m != nil && !p.m.Deadline().IsZero() && p.m.Deadline().Before(p.now) {
			return fmt.Errorf("the deadline passed %v earlier", p.now.Sub(p.m.Deadline()))
		}
		if line = rest; line == "" {
			p.drive()
			return nil
		}
	}
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "file":
		_, err := fmt.Sscan(rest, &p.size)
		return err
	case "limits":
		o := parseOffer(optionBytes(strings.Fields(rest)), 0)
		p.limits = transfer.Limits{BlockSize: o.BlockSize, Window: o.Window, MaxTimeout: o.Timeout, Rollover: o.Rollover}
		return nil
	case "refuse":
		var err error
		p.refused, err = transfer.ParseOptionSet(rest)
		return err
	case "put":
		text, request, _ := strings.Cut(rest, " ")
		size, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return err
		}
		b, err := encode("WRQ " + request)
		if err != nil {
			return err
		}
		p.s = new(Sender)
		p.m = p.s
		p.s.Request(p.now, mustParse(b), size)
	case "get":
		b, err := encode("RRQ " + rest)
		if err != nil {
			return err
		}
		p.r = new(Receiver)
		p.m = p.r
		p.r.Request(p.now, mustParse(b))
	case "<-":
		b, err := encode(rest)
		if err != nil {
			return err
		}
		p.arrive(b)
	case "expire":
		p.expire()
		return nil
	case "vanish":
		for p.expire() {
		}
		return nil
	case "skip":
		last, err := strconv.ParseInt(rest, 10, 64)
		if err != nil {
			return err
		}
		p.skip(last)
	case "store":
		p.slow = true
	case "stored":
		p.r.Stored(p.now)
	case "abort":
		var code transfer.ErrorCode
		var msg string
		if _, err := fmt.Sscanf(rest, "%d %q", &code, &msg); err != nil {
			return err
		}
		p.m.Abort(code, msg, nil)
	default:
		return fmt.Errorf("not in the vocabulary")
	}
	p.drive()
	return nil
}

// arrive delivers a packet to the machine, as a server or a client would.
func (p *play) arrive(b []byte) {
	op := transfer.OpcodeOf(b)
	switch {
	case op != transfer.ReadRequest && op != transfer.WriteRequest:
	case p.m != nil:
		p.m.Repeat(p.now)
		return
	default:
		q, err := ParseRequestWithout(p.refused, b)
		if e, ok := err.(*transfer.Error); ok {
			p.say("-> %s", decode(AppendError(nil, e.Code, e.Message)))
			return
		}
		if q.Write {
			p.r = new(Receiver)
			p.m = p.r
			p.r.Answer(p.now, q.Mode, Agree(p.limits, q, -1))
		} else {
			p.s = new(Sender)
			p.m = p.s
			p.s.Answer(p.now, Agree(p.limits, q, p.size), p.size)
		}
		return
	}
	if p.s != nil {
		p.s.Handle(p.now, b)
		return
	}
	c := p.r.Handle(p.now, b)
	if len(c.Data) == 0 && !c.Last {
		return
	}
	whole := ""
	if c.Last {
		whole = ", whole"
	}
	p.say("keep %d bytes at %d%s", len(c.Data), c.Offset, whole)
	if !p.slow {
		p.r.Stored(p.now)
	}
}

// skip makes the peer confirm or send all blocks up to the last.
func (p *play) skip(last int64) {
	for p.s != nil && p.s.acked < last {
		k := min(p.s.next-1, last)
		p.quiet = k < last
		p.arrive(appendAck(nil, k, p.s.agreed.Rollover))
		p.drive()
	}
	for p.r != nil && p.r.got < last {
		k := p.r.got + 1
		p.quiet = k < last
		p.arrive(append(AppendHeader(nil, k, p.r.agreed.Rollover), make([]byte, p.r.block)...))
		p.drive()
	}
}

// expire advances the time to the deadline, if there is one.
func (p *play) expire() bool {
	d := p.m.Deadline()
	if d.IsZero() {
		if !p.forgotten {
			p.say("waits for nothing")
		}
		return false
	}
	p.say("after %v", d.Sub(p.now))
	p.now = d
	p.m.Expire(p.now)
	p.drive()
	return true
}

// drive sends the packets that are due and writes the machine's state.
func (p *play) drive() {
	if p.m == nil {
		return
	}
	for {
		b := p.m.AppendReply(p.now, nil)
		if len(b) == 0 {
			break
		}
		p.say("-> %s", decode(b))
	}
	for p.s != nil {
		run := p.s.Due(p.now)
		if run.Blocks == 0 {
			break
		}
		left := run.Bytes
		for i := range run.Blocks {
			size := min(left, p.s.block)
			left -= size
			b := AppendHeader(nil, run.Block+int64(i), p.s.agreed.Rollover)
			p.say("-> %s", decode(append(b, make([]byte, size)...)))
		}
		p.s.Sent(p.now, run.Blocks)
	}
	done, err := p.m.Done()
	if !done {
		return
	}
	if !p.over {
		p.over = true
		switch {
		case err != nil:
			p.say("done: %v", err)
		case p.m.Stats().Unconfirmed:
			p.say("done, unconfirmed")
		default:
			p.say("done")
		}
	}
	if !p.forgotten && p.m.Deadline().IsZero() {
		p.forgotten = true
		p.say("forgotten")
	}
}

var opcodeNames = map[transfer.Opcode]string{
	transfer.ReadRequest: "RRQ", transfer.WriteRequest: "WRQ", transfer.Data: "DATA",
	transfer.Acknowledgement: "ACK", transfer.ErrorPacket: "ERROR", transfer.OptionAck: "OACK",
}

// decode formats a packet for a transcript.
func decode(b []byte) string {
	op := transfer.OpcodeOf(b)
	name, ok := opcodeNames[op]
	if !ok || len(b) < transfer.HeaderSize {
		return fmt.Sprintf("BYTES %x", b)
	}
	number := binary.BigEndian.Uint16(b[2:])
	switch op {
	case transfer.Data:
		return fmt.Sprintf("DATA %d %d bytes", number, len(b)-transfer.HeaderSize)
	case transfer.Acknowledgement:
		return fmt.Sprintf("ACK %d", number)
	case transfer.ErrorPacket:
		return fmt.Sprintf("ERROR %d %q", number, strings.TrimSuffix(string(b[4:]), "\x00"))
	}
	fields := strings.Split(strings.TrimSuffix(string(b[2:]), "\x00"), "\x00")
	if op != transfer.OptionAck {
		name += fmt.Sprintf(" %q %s", fields[0], fields[1])
		fields = fields[2:]
	}
	for i := 0; i+1 < len(fields); i += 2 {
		name += " " + fields[i] + "=" + fields[i+1]
	}
	return name
}

// encode is the inverse of decode.
func encode(text string) ([]byte, error) {
	var number, size int
	name, rest, _ := strings.Cut(text, " ")
	packet := func(op transfer.Opcode, tail ...byte) []byte {
		return append(binary.BigEndian.AppendUint16(nil, uint16(op)), tail...)
	}
	fields := strings.Fields(rest)
	switch name {
	case "RRQ", "WRQ":
		op := transfer.ReadRequest
		if name == "WRQ" {
			op = transfer.WriteRequest
		}
		file, err := strconv.Unquote(fields[0])
		if err != nil || len(fields) < 2 {
			return nil, fmt.Errorf("a request has a quoted name and a mode: %v", err)
		}
		b := append(packet(op), file+"\x00"+fields[1]+"\x00"...)
		return append(b, optionBytes(fields[2:])...), nil
	case "OACK":
		return packet(transfer.OptionAck, optionBytes(fields)...), nil
	case "DATA":
		_, err := fmt.Sscanf(rest, "%d %d bytes", &number, &size)
		return append(AppendHeader(nil, int64(number), transfer.RolloverDefault), make([]byte, size)...), err
	case "ACK":
		_, err := fmt.Sscan(rest, &number)
		return appendAck(nil, int64(number), transfer.RolloverDefault), err
	case "ERROR":
		var msg string
		_, err := fmt.Sscanf(rest, "%d %q", &number, &msg)
		return append(packet(transfer.ErrorPacket, byte(number>>8), byte(number)), msg+"\x00"...), err
	case "BYTES":
		var b []byte
		_, err := fmt.Sscanf(rest, "%x", &b)
		return b, err
	}
	return nil, fmt.Errorf("unknown packet %s", name)
}

// optionBytes encodes name=value pairs for a packet.
func optionBytes(pairs []string) []byte {
	var b []byte
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		b = append(b, name+"\x00"+value+"\x00"...)
	}
	return b
}
