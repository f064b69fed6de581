package dhcp

import (
	"fmt"
	"strconv"
	"strings"
)

// An Addr is an IPv4 address, as in the fields of a DHCP packet. netip.Addr.As4 returns one.
type Addr [4]byte

// Broadcast is the address of all machines on a link (RFC 919).
var Broadcast = Addr{255, 255, 255, 255}

// String returns the address in dotted decimal form.
func (a Addr) String() string { return string(a.Append(nil)) }

// MarshalText returns the same text as String.
func (a Addr) MarshalText() ([]byte, error) { return a.Append(nil), nil }

// UnmarshalText parses an address in dotted decimal form.
func (a *Addr) UnmarshalText(text []byte) error {
	parts := strings.Split(string(text), ".")
	if len(parts) != len(a) {
		return fmt.Errorf("%q is not an IPv4 address", text)
	}
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 8)
		if err != nil {
			return fmt.Errorf("%q is not an IPv4 address", text)
		}
		a[i] = byte(n)
	}
	return nil
}

// Append appends the address in dotted decimal form.
func (a Addr) Append(b []byte) []byte {
	for i, n := range a {
		if i > 0 {
			b = append(b, '.')
		}
		b = strconv.AppendUint(b, uint64(n), 10)
	}
	return b
}

// Unicast reports whether the address can belong to a single machine of a network. It returns false
// for a loopback address.
func (a Addr) Unicast() bool { return a[0] != 0 && a[0] != 127 && a[0] < 224 }

func (a Addr) bits() uint32 {
	return uint32(a[0])<<24 | uint32(a[1])<<16 | uint32(a[2])<<8 | uint32(a[3])
}

// A Network is an IPv4 prefix, such as 192.0.2.0/24.
type Network struct {
	Addr Addr
	Bits int // length of the prefix, 0 to 32
}

// Contains reports whether an address is in the network.
func (n Network) Contains(a Addr) bool { return (n.Addr.bits()^a.bits())>>(32-n.Bits) == 0 }

// maxMAC is the size, in bytes, of the longest hardware address that fits in a DHCP packet.
const maxMAC = 16

// A MAC is the hardware address of a client: the field chaddr together with its length. EDK2 can
// put a GUID of 16 bytes there. MACs can be compared with ==.
type MAC struct {
	addr [maxMAC]byte
	n    uint8
}

// MakeMAC returns the MAC that consists of the given bytes. If b is empty, or longer than 16 bytes,
// it returns the zero MAC, which no client has.
func MakeMAC(b []byte) (m MAC) {
	if len(b) <= maxMAC {
		m.n = uint8(copy(m.addr[:], b))
	}
	return m
}

// Bytes returns the bytes of the MAC.
func (m MAC) Bytes() []byte { return m.addr[:m.n:m.n] }

// minMAC is the length, in bytes, of an Ethernet address. No machine that boots from a network has
// a shorter hardware address, so a shorter one in a setting is a mistake.
const minMAC = 6

// ParseMAC parses a MAC in hexadecimal: 6 to 16 bytes of two digits each, separated by colons or
// hyphens.
func ParseMAC(text string) (MAC, error) {
	m, err := parseMAC(text)
	if err == nil && m.n < minMAC {
		err = fmt.Errorf("%q is too short for a MAC: it has 6 bytes, as in 52:54:00:12:34:56", text)
		m = MAC{}
	}
	return m, err
}

// parseMAC is like ParseMAC, but accepts 1 to 16 bytes.
func parseMAC(text string) (MAC, error) {
	var b []byte
	for part := range strings.SplitSeq(strings.ReplaceAll(text, "-", ":"), ":") {
		n, err := strconv.ParseUint(part, 16, 8)
		if err != nil || len(part) != 2 || len(b) == maxMAC {
			return MAC{}, fmt.Errorf("%q is not a MAC; write it as 52:54:00:12:34:56", text)
		}
		b = append(b, byte(n))
	}
	return MakeMAC(b), nil
}

// String returns the MAC in lower case, with colons.
func (m MAC) String() string {
	const digits = "0123456789abcdef"
	b := make([]byte, 0, 3*maxMAC)
	for i, n := range m.addr[:m.n] {
		if i > 0 {
			b = append(b, ':')
		}
		b = append(b, digits[n>>4], digits[n&15])
	}
	return string(b)
}

// MarshalText returns the same text as String.
func (m MAC) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText parses a text that MarshalText returned. It also accepts short addresses, which a
// client may have.
func (m *MAC) UnmarshalText(text []byte) (err error) {
	*m, err = parseMAC(string(text))
	return err
}
