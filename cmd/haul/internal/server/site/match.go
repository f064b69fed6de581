package site

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// A Client identifies the sender of a request, and the address of ours that received the request.
type Client struct {
	Peer  netip.Addr     // the client's address; a zone or an IPv4-in-IPv6 form is ignored
	Local netip.AddrPort // the address and port of ours that received the request
}

// maxAlternatives is the maximum number of alternatives in a [Match].
const maxAlternatives = 1024

// A MAC is a hardware address of 48 bits, as used by Ethernet and Wi-Fi.
type MAC [6]byte

// String returns the address like "52:54:00:12:34:56".
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// dashed returns the address like "52-54-00-12-34-56".
func (m MAC) dashed() string { return strings.ReplaceAll(m.String(), ":", "-") }

// A Match selects clients. It has several lists, and a client fits the Match if it fits any element
// of any list. The zero Match fits every client.
type Match struct {
	Nets []netip.Prefix // fits a client whose address is in one of these networks

	// MACs fits a client that has one of these hardware addresses. A client's hardware address is
	// known only if the client is on the same link, and the client can forge it. So it
	// distinguishes clients, but does not protect files.
	MACs []MAC

	Listeners []Listener // fits a client whose request arrived at one of these addresses or ports
}

// A Listener is an address of ours, a port of ours, or both.
type Listener struct {
	Addr netip.Addr // the zero Addr means any address
	Port uint16     // 0 means any port
}

// IsZero reports whether m fits every client.
func (m Match) IsZero() bool { return len(m.Nets)+len(m.MACs)+len(m.Listeners) == 0 }

// plain returns c with its addresses in the form that Match compares: without zones and without
// IPv4-in-IPv6.
func (c Client) plain() Client {
	c.Peer = c.Peer.Unmap().WithZone("")
	c.Local = netip.AddrPortFrom(c.Local.Addr().Unmap().WithZone(""), c.Local.Port())
	return c
}

// fitsAddr reports whether c, in its plain form, fits a network or a listener.
func (m Match) fitsAddr(c Client) bool {
	return slices.ContainsFunc(m.Nets, func(p netip.Prefix) bool { return p.Contains(c.Peer) }) ||
		slices.ContainsFunc(m.Listeners, func(l Listener) bool {
			return (!l.Addr.IsValid() || l.Addr == c.Local.Addr()) && (l.Port == 0 || l.Port == c.Local.Port())
		})
}

func (m Match) fitsMAC(mac MAC) bool { return slices.Contains(m.MACs, mac) }

// String returns m in the form that [ParseMatch] reads.
func (m Match) String() string {
	var words []string
	for _, p := range m.Nets {
		if p.IsSingleIP() {
			words = append(words, p.Addr().String())
		} else {
			words = append(words, p.String())
		}
	}
	for _, mac := range m.MACs {
		words = append(words, mac.String())
	}
	for _, l := range m.Listeners {
		words = append(words, "on="+l.String())
	}
	if len(words) == 0 {
		return "*"
	}
	return strings.Join(words, ",")
}

// String returns the listener like "192.0.2.1:69", "192.0.2.1" or ":69".
func (l Listener) String() string {
	switch {
	case !l.Addr.IsValid():
		return ":" + strconv.Itoa(int(l.Port))
	case l.Port == 0:
		return l.Addr.String()
	}
	return netip.AddrPortFrom(l.Addr, l.Port).String()
}

// ParseMatch reads a match: "*" for everybody, or one or more of these alternatives, separated by
// commas:
//
//	10.0.0.0/8  2001:db8::/32    a network
//	192.0.2.7   2001:db8::7      an address
//	52:54:00:12:34:56            a hardware address, with : or - between the bytes
//	on=192.0.2.1  on=:6969       our address, or our port, that received the request
//	on=192.0.2.1:69              both our address and our port
//	on=[2001:db8::1]:69
func ParseMatch(s string) (Match, error) {
	var m Match
	if s == "*" {
		return m, nil
	}
	words := strings.Split(s, ",")
	if len(words) > maxAlternatives {
		return Match{}, fmt.Errorf("match %.40q…: more than %d alternatives", s, maxAlternatives)
	}
	for _, w := range words {
		if err := m.add(w); err != nil {
			return Match{}, fmt.Errorf("match %q: %w", s, err)
		}
	}
	return m, nil
}

// ParseNetwork reads one or more addresses or networks, separated by commas. It accepts no other
// alternatives of a Match.
func ParseNetwork(s string) ([]netip.Prefix, error) {
	words := strings.Split(s, ",")
	if len(words) > maxAlternatives {
		return nil, fmt.Errorf("more than %d networks", maxAlternatives)
	}
	var all []netip.Prefix
	for _, word := range words {
		p, ok, err := parsePrefix(word)
		if !ok {
			err = errors.New("it is an address or a network, such as 192.0.2.0/24 or 2001:db8::/32")
		}
		if err != nil && len(words) > 1 {
			err = fmt.Errorf("%q: %w", word, err)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

func (m *Match) add(word string) error {
	if where, ok := strings.CutPrefix(word, "on="); ok {
		l, err := parseListener(where)
		m.Listeners = append(m.Listeners, l)
		return err
	}
	if p, ok, err := parsePrefix(word); err != nil {
		return fmt.Errorf("%q: %w", word, err)
	} else if ok {
		m.Nets = append(m.Nets, p)
		return nil
	}
	if mac, ok := parseMAC(word); ok {
		m.MACs = append(m.MACs, mac)
		return nil
	}
	switch word {
	case "":
		return fmt.Errorf("nothing between two commas; for everybody write *")
	case "*":
		return fmt.Errorf("* is everybody and stands alone")
	}
	return fmt.Errorf("%q is no network (10.0.0.0/8), address (192.0.2.7), hardware address (52:54:00:12:34:56) or listener (on=192.0.2.1:69)", word)
}

// parseMAC reads a hardware address: six bytes of two hexadecimal digits each, separated by : or -.
func parseMAC(s string) (MAC, bool) {
	var mac MAC
	if len(s) != 17 {
		return mac, false
	}
	digits := make([]byte, 0, 12)
	for i := 0; i < len(s); i += 3 {
		if i > 0 && (s[i-1] != s[2] || s[2] != ':' && s[2] != '-') {
			return mac, false
		}
		digits = append(digits, s[i], s[i+1])
	}
	_, err := hex.Decode(mac[:], digits)
	return mac, err == nil
}

// parsePrefix reads a network, or an address as a network of one address. ok is false if the string
// looks like neither a network nor an address.
func parsePrefix(s string) (p netip.Prefix, ok bool, err error) {
	if strings.Contains(s, "/") {
		p, err = netip.ParsePrefix(s)
		switch {
		case err != nil:
			err = errors.New("it is no network; write it like 10.0.0.0/8 or 2001:db8::/32")
		case p.Addr().Is4In6():
			err = errors.New("write an IPv4 network like 10.0.0.0/8")
		case p != p.Masked():
			err = fmt.Errorf("it has bits set beyond the first %d; write %s for the network, or %s for that address alone", p.Bits(), p.Masked(), p.Addr())
		}
		return p, true, err
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return p, false, nil
	}
	if a.Zone() != "" {
		return p, true, fmt.Errorf("it has a zone; leave out %%%s", a.Zone())
	}
	a = a.Unmap()
	return netip.PrefixFrom(a, a.BitLen()), true, nil
}

func parseListener(s string) (Listener, error) {
	if port, ok := strings.CutPrefix(s, ":"); ok && !strings.Contains(port, ":") {
		return parsePort(s, Listener{}, port)
	}
	if a, err := netip.ParseAddr(s); err == nil {
		return listenerAt(s, a)
	}
	host, port, err := net.SplitHostPort(s)
	if err == nil {
		if a, err := netip.ParseAddr(host); err == nil {
			l, err := listenerAt(s, a)
			if err != nil {
				return l, err
			}
			return parsePort(s, l, port)
		}
	}
	return Listener{}, fmt.Errorf("on=%s: write on=192.0.2.1, on=:69, on=192.0.2.1:69 or on=[2001:db8::1]:69", s)
}

func listenerAt(s string, a netip.Addr) (Listener, error) {
	if a.Zone() != "" {
		return Listener{}, fmt.Errorf("on=%s has a zone; leave out %%%s", s, a.Zone())
	}
	if a.IsUnspecified() {
		return Listener{}, fmt.Errorf("on=%s: no request is sent to %s; write on=:PORT for any address", s, a)
	}
	return Listener{Addr: a.Unmap()}, nil
}

func parsePort(s string, l Listener, port string) (Listener, error) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return l, fmt.Errorf("on=%s: %q is no port; they go from 1 to 65535", s, port)
	}
	l.Port = uint16(n)
	return l, nil
}
