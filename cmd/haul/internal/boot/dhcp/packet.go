package dhcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// These are sizes of packets, in bytes.
const (
	// headerSize is the size of the fields before the options, including the cookie (RFC 2131 §2,
	// §3).
	headerSize = 240

	// MinPacket is the size to which packets are padded. A BOOTP packet has 64 bytes of options
	// (RFC 951), and some clients and relay agents drop shorter packets.
	MinPacket = 300

	// MaxReply is the size of the largest packet that every client must accept (RFC 2131 §2). No
	// larger answer is sent.
	MaxReply = 576

	// MaxRequest is the size of the largest packet that Parse accepts. A client's packet fits in
	// one Ethernet frame, but a relay agent adds an option to it.
	MaxRequest = 2048
)

// These are the values of Header.Op, for packets from clients and from servers (RFC 2131 §2).
const (
	BootRequest = 1
	BootReply   = 2
)

// cookie marks the beginning of the options (RFC 2131 §3).
const cookie = 0x63825363

// These are DHCP options that boot clients and servers use (RFC 2132, RFC 3046, RFC 4578).
const (
	OptionPad          = 0
	OptionVendor       = 43 // vendor-specific information, which contains the options of PXE
	OptionAddress      = 50 // address that the client requests
	OptionOverload     = 52 // says that the fields file and sname contain options
	OptionMessageType  = 53
	OptionServer       = 54 // server identifier
	OptionVendorClass  = 60
	OptionTFTPServer   = 66
	OptionBootFile     = 67
	OptionUserClass    = 77
	OptionRelayAgent   = 82
	OptionArchitecture = 93
	OptionMachineID    = 97 // UUID of the client machine
	OptionIPXE         = 175
	OptionEnd          = 255
)

// These are types of messages (RFC 2132 §9.6).
const (
	Discover = 1
	Offer    = 2
	Request  = 3
	Ack      = 5
	Inform   = 8
)

// A Header holds the fields of a packet that come before the options (RFC 2131 §2).
type Header struct {
	Op, HType, HLen, Hops uint8
	XID                   uint32
	Secs, Flags           uint16
	ClientAddr            Addr // ciaddr
	YourAddr              Addr // yiaddr
	ServerAddr            Addr // siaddr
	RelayAddr             Addr // giaddr
	HardwareAddr          [maxMAC]byte
	ServerName            [64]byte // sname
	File                  [128]byte
}

// MAC returns the client's hardware address.
func (h *Header) MAC() MAC { return MakeMAC(h.HardwareAddr[:min(h.HLen, maxMAC)]) }

// A Packet is a parsed DHCP packet. It refers to the bytes that were parsed, and does not copy
// them.
type Packet struct {
	Header

	// areas holds the fields that contain options, in the order of RFC 3396 §5: the options field,
	// file, and sname. The last two are empty unless option 52 says that they contain options.
	areas [3][]byte
}

// errNotDHCP is the error for bytes that do not begin like a DHCP packet.
var errNotDHCP = errors.New("this is not a DHCP packet: it has no header with the cookie of RFC 2131")

// Parse parses a DHCP packet. The option END may be missing. These are errors: an option that runs
// past the end of its field, a packet of more than [MaxRequest] bytes, a hardware address of more
// than 16 bytes, and an invalid option 52. If the field file or sname contains options (RFC 2132
// §9.3), it is empty in the Header.
func Parse(b []byte) (Packet, error) {
	if len(b) > MaxRequest {
		return Packet{}, fmt.Errorf("a DHCP packet of %d bytes is too long: %d are the most", len(b), MaxRequest)
	}
	if len(b) < headerSize || binary.BigEndian.Uint32(b[headerSize-4:]) != cookie {
		return Packet{}, errNotDHCP
	}
	p := Packet{Header: Header{
		Op: b[0], HType: b[1], HLen: b[2], Hops: b[3],
		XID:          binary.BigEndian.Uint32(b[4:]),
		Secs:         binary.BigEndian.Uint16(b[8:]),
		Flags:        binary.BigEndian.Uint16(b[10:]),
		ClientAddr:   Addr(b[12:16]),
		YourAddr:     Addr(b[16:20]),
		ServerAddr:   Addr(b[20:24]),
		RelayAddr:    Addr(b[24:28]),
		HardwareAddr: [maxMAC]byte(b[28:44]),
		ServerName:   [64]byte(b[44:108]),
		File:         [128]byte(b[108:236]),
	}}
	if p.HLen > maxMAC {
		return Packet{}, fmt.Errorf("a hardware address of %d bytes is too long: DHCP has room for %d", p.HLen, maxMAC)
	}
	if err := p.setArea(0, b[headerSize:]); err != nil {
		return Packet{}, err
	}
	return p, p.readOverload(b)
}

// readOverload adds the options in the fields file and sname, if option 52 says that these contain
// options.
func (p *Packet) readOverload(b []byte) error {
	value, ok := p.Option(OptionOverload)
	if !ok {
		return nil
	}
	if len(value) != 1 || value[0] < 1 || value[0] > 3 {
		return fmt.Errorf("option 52 is % x: it must be 1, 2 or 3", value)
	}
	if value[0]&1 != 0 {
		p.File = [128]byte{}
		if err := p.setArea(1, b[108:236]); err != nil {
			return err
		}
	}
	if value[0]&2 != 0 {
		p.ServerName = [64]byte{}
		return p.setArea(2, b[44:108])
	}
	return nil
}

// setArea stores a field that contains options, up to the option END.
func (p *Packet) setArea(i int, area []byte) error {
	for rest := area; ; {
		var code uint8
		var ok bool
		before := rest
		if code, _, rest, ok = NextOption(rest); !ok {
			return fmt.Errorf("option %d runs past the end of its field", code)
		}
		if code == OptionEnd {
			p.areas[i] = area[:len(area)-len(before)]
			return nil
		}
	}
}

// NextOption returns the first option of an area, without the padding before it, and the rest of
// the area. At the end of the area, code is OptionEnd. ok is false if the option does not fit in
// the area.
func NextOption(area []byte) (code uint8, value, rest []byte, ok bool) {
	for len(area) > 0 && area[0] == OptionPad {
		area = area[1:]
	}
	switch {
	case len(area) == 0 || area[0] == OptionEnd:
		return OptionEnd, nil, nil, true
	case len(area) < 2 || len(area) < 2+int(area[1]):
		return area[0], nil, nil, false
	}
	end := 2 + int(area[1])
	return area[0], area[2:end], area[end:], true
}

// pieces yields the options in the order of the packet. If an option occurs several times, it is
// yielded each time.
func (p *Packet) pieces(yield func(uint8, []byte) bool) {
	for i, area := range p.areas {
		for {
			code, value, rest, ok := NextOption(area)
			if !ok || code == OptionEnd {
				break
			}
			if (i == 0 || code != OptionOverload) && !yield(code, value) {
				return
			}
			area = rest
		}
	}
}

// Option returns the value of an option, and whether the packet contains it. If the option occurs
// several times, its values are joined (RFC 3396 §5), and only then is memory allocated.
func (p *Packet) Option(code uint8) (value []byte, ok bool) {
	for c, piece := range p.pieces {
		switch {
		case c != code:
		case !ok:
			value, ok = slices.Clip(piece), true
		default:
			value = append(value, piece...)
		}
	}
	return value, ok
}

// Options yields each option of the packet once, except for option 52, in the order in which they
// first occur.
func (p *Packet) Options() iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		var seen [256]bool
		for code := range p.pieces {
			if seen[code] || code == OptionOverload {
				continue
			}
			seen[code] = true
			if value, _ := p.Option(code); !yield(code, value) {
				return
			}
		}
	}
}

// Type returns the type of the message. It returns 0 if there is no valid type, as in a BOOTP
// packet.
func (p *Packet) Type() uint8 {
	if value, _ := p.Option(OptionMessageType); len(value) == 1 {
		return value[0]
	}
	return 0
}

// AppendHeader appends the fields before the options, and the cookie.
func AppendHeader(b []byte, h *Header) []byte {
	b = append(b, h.Op, h.HType, h.HLen, h.Hops)
	b = binary.BigEndian.AppendUint32(b, h.XID)
	b = binary.BigEndian.AppendUint16(b, h.Secs)
	b = binary.BigEndian.AppendUint16(b, h.Flags)
	for _, a := range [...]Addr{h.ClientAddr, h.YourAddr, h.ServerAddr, h.RelayAddr} {
		b = append(b, a[:]...)
	}
	b = append(b, h.HardwareAddr[:]...)
	b = append(b, h.ServerName[:]...)
	b = append(b, h.File[:]...)
	return binary.BigEndian.AppendUint32(b, cookie)
}

// AppendOption appends an option. A value of more than 255 bytes is split into several options with
// the same code (RFC 3396 §7).
func AppendOption(b []byte, code uint8, value []byte) []byte {
	for len(value) > 255 {
		b = append(append(b, code, 255), value[:255]...)
		value = value[255:]
	}
	return append(append(b, code, uint8(len(value))), value...)
}

// AppendEnd appends the option END to the packet that begins at b[start], and pads the packet to
// [MinPacket].
func AppendEnd(b []byte, start int) []byte {
	b = append(b, OptionEnd)
	for len(b)-start < MinPacket {
		b = append(b, OptionPad)
	}
	return b
}
