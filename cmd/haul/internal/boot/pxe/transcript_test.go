package pxe

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/internal/golden"
)

// The transcripts contain the packets of each kind of client, as the sources of the firmware and the
// RFCs describe them, and every byte of the answers. The events:
//
//	rules x64=ipxe.efi http=80 relay=198.51.100.0/24 known
//	rules host=MAC,ignore|direct|redirect|FILE ...
//	+4s                                     time passes
//	<- 67 discover mac=MAC xid=1 ...        a packet arrives at a port; the lines below it have its options
//	asks 192.0.2.77 /ipxe.efi               a machine requests a file
//	machines                                show the remembered machines
func TestTranscripts(t *testing.T) {
	golden.Transcripts(t, func(t *testing.T) golden.Transcript {
		s, err := NewServer(Rules{})
		if err != nil {
			t.Fatal(err)
		}
		return &transcript{server: s, now: time.Unix(1_000_000, 0)}
	})
}

type transcript struct {
	server *Server
	now    time.Time
}

var testServer = dhcp.Addr{192, 0, 2, 9}

func (tr *transcript) Step(event string, say func(string, ...any)) error {
	head, options, _ := strings.Cut(event, "\n")
	words := strings.Fields(head)
	switch {
	case words[0] == "rules":
		r, err := parseRules(words[1:])
		if err != nil {
			return err
		}
		return tr.server.SetRules(r)
	case words[0][0] == '+':
		d, err := time.ParseDuration(words[0][1:])
		tr.now = tr.now.Add(d)
		return err
	case words[0] == "<-" && len(words) > 2:
		packet, from, err := parsePacket(words[1:], options)
		if err != nil {
			return err
		}
		tr.handle(packet, from, say)
		return nil
	case words[0] == "asks" && len(words) == 3:
		from, err := parseAddr(words[1])
		tr.server.Requested(tr.now, from, words[2])
		return err
	case words[0] == "machines":
		for m := range tr.server.Machines(tr.now) {
			say("%v %v %v, %v: %v, %v %q", m.MAC, m.Addr, m.Client.Class, m.Client.Arch, m.Stage, m.Form, m.File)
		}
		return nil
	}
	return errors.New("unknown event")
}

func (tr *transcript) handle(packet []byte, from Arrival, say func(string, ...any)) {
	a := tr.server.Handle(tr.now, packet, from, nil)
	if a.Reason != Answered {
		say("no answer: %s", a.Why())
		return
	}
	say("-> %v:%d %d bytes for %d; %v, %v; form %v", a.To, a.ToPort, len(a.Packet), len(packet), a.Client.Class, a.Client.Arch, a.Form)
	for _, line := range dump(a.Packet) {
		say("   %s", line)
	}
}

func parseAddr(s string) (a dhcp.Addr, err error) {
	parts := strings.Split(s, ".")
	if len(parts) != len(a) {
		return a, fmt.Errorf("%q is not an address", s)
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 8)
		if err != nil {
			return a, err
		}
		a[i] = byte(n)
	}
	return a, nil
}

func parseRules(words []string) (r Rules, err error) {
	r.Files, r.Hosts = map[Arch]string{}, map[dhcp.MAC]Host{}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "http":
			_, err = fmt.Sscan(value, &r.HTTPPort)
		case "known":
			r.KnownOnly = true
		case "relay":
			addr, bits, _ := strings.Cut(value, "/")
			var n dhcp.Network
			if n.Addr, err = parseAddr(addr); err == nil {
				n.Bits, err = strconv.Atoi(bits)
			}
			r.Relays = append(r.Relays, n)
		case "host":
			err = addHost(r.Hosts, value)
		default:
			var arch Arch
			arch, err = ParseArch(key)
			r.Files[arch] = value
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

func addHost(hosts map[dhcp.MAC]Host, text string) error {
	name, rule, _ := strings.Cut(text, ",")
	mac, err := dhcp.ParseMAC(name)
	switch rule {
	case "ignore":
		hosts[mac] = Host{Ignore: true}
	case "direct":
		hosts[mac] = Host{Form: Direct}
	case "redirect":
		hosts[mac] = Host{Form: Redirect}
	default:
		hosts[mac] = Host{File: rule}
	}
	return err
}

var messageTypes = map[string]byte{"discover": dhcp.Discover, "request": dhcp.Request, "inform": dhcp.Inform, "release": 7, "offer": dhcp.Offer, "bootp": 0}

// parsePacket builds a packet from words and options. The words are the port, the type and fields
// of the header. Each line of options is a code and a value, in hexadecimal or in quotes.
func parsePacket(words []string, options string) ([]byte, Arrival, error) {
	port, err := strconv.ParseUint(words[0], 10, 16)
	if err != nil {
		return nil, Arrival{}, err
	}
	kind, ok := messageTypes[words[1]]
	if !ok {
		return nil, Arrival{}, fmt.Errorf("unknown type %q", words[1])
	}
	h := dhcp.Header{Op: dhcp.BootRequest, HType: 1, HLen: 6}
	from := Arrival{Port: uint16(port), FromPort: 68, OnLink: true, Server: testServer}
	noEnd := false
	for _, word := range words[2:] {
		if word == "noend" {
			noEnd = true
		} else if err := setField(&h, &from, word); err != nil {
			return nil, from, err
		}
	}
	b := dhcp.AppendHeader(nil, &h)
	if kind != 0 {
		b = append(b, dhcp.OptionMessageType, 1, kind)
	}
	for line := range strings.Lines(options) {
		var err error
		if b, err = appendLine(b, strings.TrimSpace(line)); err != nil {
			return nil, from, err
		}
	}
	if noEnd {
		return b, from, nil
	}
	return dhcp.AppendEnd(b, 0), from, nil
}

func appendLine(b []byte, line string) ([]byte, error) {
	line, _, _ = strings.Cut(line, " # ")
	code, text, _ := strings.Cut(strings.TrimSpace(line), " ")
	n, err := strconv.ParseUint(code, 10, 8)
	if err != nil {
		return b, err
	}
	value, err := parseValue(strings.TrimSpace(text))
	return dhcp.AppendOption(b, byte(n), value), err
}

// parseValue parses a value that consists of pieces in hexadecimal and in quotes.
func parseValue(text string) (b []byte, err error) {
	for text != "" {
		piece, rest, _ := strings.Cut(text, " ")
		if text[0] == '"' {
			quoted, err := strconv.QuotedPrefix(text)
			if err != nil {
				return nil, err
			}
			s, _ := strconv.Unquote(quoted)
			b, rest = append(b, s...), text[len(quoted):]
		} else if b, err = hex.AppendDecode(b, []byte(piece)); err != nil {
			return nil, err
		}
		text = strings.TrimSpace(rest)
	}
	return b, nil
}

func setField(h *dhcp.Header, from *Arrival, word string) (err error) {
	key, value, _ := strings.Cut(word, "=")
	number := func(bits int) uint64 {
		n, e := strconv.ParseUint(value, 0, bits)
		if e != nil {
			err = e
		}
		return n
	}
	switch key {
	case "mac":
		var b []byte
		b, err = hex.DecodeString(strings.ReplaceAll(value, ":", ""))
		h.HLen = uint8(copy(h.HardwareAddr[:], b))
	case "op":
		h.Op = uint8(number(8))
	case "htype":
		h.HType = uint8(number(8))
	case "hlen":
		h.HLen = uint8(number(8))
	case "xid":
		h.XID = uint32(number(32))
	case "secs":
		h.Secs = uint16(number(16))
	case "flags":
		h.Flags = uint16(number(16))
	case "ciaddr":
		h.ClientAddr, err = parseAddr(value)
	case "giaddr":
		h.RelayAddr, err = parseAddr(value)
	case "file":
		err = setHex(h.File[:], value)
	case "sname":
		err = setHex(h.ServerName[:], value)
	case "from":
		addr, port, _ := strings.Cut(value, ":")
		if from.From, err = parseAddr(addr); err == nil {
			value = port
			from.FromPort = uint16(number(16))
		}
	case "offlink":
		from.OnLink = false
	case "unicast":
		from.Unicast = true
	default:
		err = fmt.Errorf("unknown field %q", key)
	}
	return err
}

func setHex(field []byte, value string) error {
	b, err := hex.DecodeString(value)
	copy(field, b)
	return err
}

// dump returns all bytes of a packet as lines. It shows the zeros at the end of a field as a
// number.
func dump(b []byte) (lines []string) {
	field := func(name string, n int) {
		lines = append(lines, fmt.Sprintf("%-8s %s", name, zeros(b[:n])))
		b = b[n:]
	}
	for _, f := range []struct {
		name string
		size int
	}{{"op", 4}, {"xid", 4}, {"secs", 2}, {"flags", 2}, {"ciaddr", 4}, {"yiaddr", 4}, {"siaddr", 4}, {"giaddr", 4}, {"chaddr", 16}, {"sname", 64}, {"file", 128}, {"cookie", 4}} {
		field(f.name, f.size)
	}
	for len(b) > 0 && b[0] != dhcp.OptionEnd {
		n := 1
		if b[0] != dhcp.OptionPad {
			n = 2 + int(b[1])
		}
		lines = append(lines, fmt.Sprintf("%-8d %s", b[0], hexAndText(b[:n])))
		b = b[n:]
	}
	return append(lines, fmt.Sprintf("%-8s %s", "255", zeros(b)))
}

// zeros returns bytes in hexadecimal. It shows the zeros at the end as a number.
func zeros(b []byte) string {
	end := len(strings.TrimRight(string(b), "\x00"))
	if len(b)-end < 3 {
		return hexAndText(b)
	}
	return strings.TrimSpace(fmt.Sprintf("%s 00*%d", hexAndText(b[:end]), len(b)-end))
}

// hexAndText returns bytes in hexadecimal; a run of three letters or more is in quotes.
func hexAndText(b []byte) string {
	var words []string
	for len(b) > 0 {
		n := 0
		for n < len(b) && b[n] >= '-' && b[n] <= 'z' {
			n++
		}
		if n >= 4 {
			words = append(words, strconv.Quote(string(b[:n])))
			b = b[n:]
			continue
		}
		words = append(words, fmt.Sprintf("%02x", b[0]))
		b = b[1:]
	}
	return strings.Join(words, " ")
}
