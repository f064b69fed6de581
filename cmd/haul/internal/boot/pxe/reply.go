package pxe

import (
	"strconv"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/internal/urlpath"
)

// A location says where a client finds its file.
type location struct {
	scheme string // "http://", "tftp://", or "" if the client gets only the name
	port   uint16 // port for HTTP
	name   string // name of the file; "" if there is no file
}

// append appends the location as the value of option 67.
func (l *location) append(b []byte, server dhcp.Addr) []byte {
	if l.scheme == "" {
		return append(b, l.name...)
	}
	b = server.Append(append(b, l.scheme...))
	if l.scheme == "http://" && l.port != 80 {
		b = strconv.AppendUint(append(b, ':'), uint64(l.port), 10)
	}
	return urlpath.Append(append(b, '/'), l.name)
}

// These are values of option 43 that clients get (PXE 2.1, table 2-1).
var (
	// takeFile sets bit 3 of suboption 6 (discovery control), which makes the client take the file
	// of the offer.
	takeFile = []byte{6, 1, 8, dhcp.OptionEnd}

	// piMenu is a PXE menu with the item that the first stages of a Raspberry Pi look for.
	piMenu = []byte("\x06\x01\x08" +
		"\x09\x14\x00\x00\x11Raspberry Pi Boot" +
		"\x0a\x04\x00PXE\xff")
)

// pxeBootItem is the suboption of option 43 in which a client says which item of a menu it has
// selected. The answer repeats it.
const (
	pxeBootItem     = 71
	pxeBootItemSize = 4
)

// appendReply appends an answer: an OFFER to a request on port 67, or an ACK to a request on port
// 4011.
func appendReply(b []byte, p *dhcp.Packet, from Arrival, a *Answer, loc location) []byte {
	var space [maxFile + maxURLPath]byte
	file := loc.append(space[:0], from.Server)
	var text [16]byte
	server := from.Server.Append(text[:0])

	h := dhcp.Header{
		Op: dhcp.BootReply, HType: p.HType, HLen: p.HLen, XID: p.XID, Flags: p.Flags,
		ServerAddr: from.Server, RelayAddr: p.RelayAddr, HardwareAddr: p.HardwareAddr,
	}
	copy(h.ServerName[:], server)
	if len(file) <= maxFile {
		copy(h.File[:], file) // because shim reads the name only from this field
	}
	kind := byte(dhcp.Offer)
	if from.Port == dhcp.PortPXE {
		kind, h.ClientAddr = dhcp.Ack, p.ClientAddr
	}

	start := len(b)
	b = dhcp.AppendHeader(b, &h)
	b = append(b, dhcp.OptionMessageType, 1, kind)
	b = dhcp.AppendOption(b, dhcp.OptionServer, from.Server[:])
	class := PXEClient
	if a.Client.Class == HTTPClient {
		class = HTTPClient
	}
	b = dhcp.AppendOption(b, dhcp.OptionVendorClass, []byte(class.VendorClass()))
	b = echo(b, p, dhcp.OptionMachineID)
	b = appendVendor(b, p, from, a)
	if len(file) > 0 {
		if a.Client.Class != HTTPClient {
			b = dhcp.AppendOption(b, dhcp.OptionTFTPServer, server)
		}
		b = dhcp.AppendOption(b, dhcp.OptionBootFile, file)
		// EDK2 writes a NUL after option 67. The padding keeps it from overwriting the next option.
		b = append(b, dhcp.OptionPad)
	}
	b = echo(b, p, dhcp.OptionRelayAgent) // this option must be last (RFC 3046 §2.2)
	return dhcp.AppendEnd(b, start)
}

// appendVendor appends option 43, if the client needs one.
func appendVendor(b []byte, p *dhcp.Packet, from Arrival, a *Answer) []byte {
	switch {
	case a.Client.Class == Pi:
		return dhcp.AppendOption(b, dhcp.OptionVendor, piMenu)
	case a.Client.Class == HTTPClient:
		return b
	case from.Port == dhcp.PortPXE:
		vendor, _ := p.Option(dhcp.OptionVendor)
		if item := suboption(vendor, pxeBootItem); len(item) == pxeBootItemSize {
			value := [3 + pxeBootItemSize]byte{pxeBootItem, pxeBootItemSize, 2 + pxeBootItemSize: dhcp.OptionEnd}
			copy(value[2:], item)
			return dhcp.AppendOption(b, dhcp.OptionVendor, value[:])
		}
		return b
	case a.Form == Redirect:
		return b
	}
	return dhcp.AppendOption(b, dhcp.OptionVendor, takeFile)
}

// echo appends an option of the request unchanged, if the request contains it.
func echo(b []byte, p *dhcp.Packet, code uint8) []byte {
	if value, ok := p.Option(code); ok {
		return dhcp.AppendOption(b, code, value)
	}
	return b
}
