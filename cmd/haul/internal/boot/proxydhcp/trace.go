package proxydhcp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
)

// maxMalformed is the largest number of bytes of a malformed packet that are logged.
const maxMalformed = 64

// packetAttr describes a packet for people: the header fields that are not zero, and the options,
// by number. The log escapes unprintable characters.
func packetAttr(key string, b []byte) slog.Attr {
	p, err := dhcp.Parse(b)
	if err != nil {
		return slog.Group(key, slog.Int("bytes", len(b)), slog.String("error", err.Error()), slog.String("begin", fmt.Sprintf("% x", b[:min(len(b), maxMalformed)])))
	}
	attrs := []any{
		slog.Int("bytes", len(b)), slog.String("type", messageType(p.Type())), slog.String("xid", fmt.Sprintf("%08x", p.XID)), slog.String("chaddr", p.MAC().String()),
	}
	if p.Flags != 0 {
		attrs = append(attrs, slog.String("flags", fmt.Sprintf("%04x", p.Flags)))
	}
	for _, f := range []struct {
		name string
		addr dhcp.Addr
	}{{"ciaddr", p.ClientAddr}, {"yiaddr", p.YourAddr}, {"siaddr", p.ServerAddr}, {"giaddr", p.RelayAddr}} {
		if f.addr != (dhcp.Addr{}) {
			attrs = append(attrs, slog.String(f.name, f.addr.String()))
		}
	}
	for _, f := range []struct{ name, text string }{{"sname", text(p.ServerName[:])}, {"file", text(p.File[:])}} {
		if f.text != "" {
			attrs = append(attrs, slog.String(f.name, f.text))
		}
	}
	for code, value := range p.Options() {
		if code != dhcp.OptionMessageType {
			attrs = append(attrs, slog.String(strconv.Itoa(int(code)), optionText(code, value)))
		}
	}
	return slog.Group(key, attrs...)
}

// messageType returns the name of a message type (RFC 2131 §3.1), or its number.
func messageType(t uint8) string {
	names := []string{"BOOTP", "DISCOVER", "OFFER", "REQUEST", "DECLINE", "ACK", "NAK", "RELEASE", "INFORM"}
	if int(t) < len(names) {
		return names[t]
	}
	return strconv.Itoa(int(t))
}

// optionText formats the value of an option: as text or numbers if that is its type, otherwise as
// bytes in hexadecimal.
func optionText(code uint8, value []byte) string {
	switch code {
	case 12, dhcp.OptionVendorClass, dhcp.OptionTFTPServer, dhcp.OptionBootFile, dhcp.OptionUserClass:
		// Option 12 is the client's name.
		return string(value)
	case dhcp.OptionAddress, dhcp.OptionServer:
		if len(value) == 4 {
			return dhcp.Addr(value).String()
		}
	case dhcp.OptionArchitecture:
		if len(value)%2 == 0 {
			var all []string
			for ; len(value) > 0; value = value[2:] {
				all = append(all, strconv.Itoa(int(binary.BigEndian.Uint16(value))))
			}
			return strings.Join(all, ",")
		}
	}
	return fmt.Sprintf("% x", value)
}

// text returns the content of a text field, up to the first NUL.
func text(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return string(b)
}
