package tftpclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/haul-project/haul/internal/urlpath"
	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/transfer"
)

// A Target names a file on a server.
type Target struct {
	Host string // host name or address; an IPv6 address has no brackets
	Port uint16 // 0 means port 69
	Name string // file name, as sent in the request
	Mode transfer.Mode
}

// ParseURL parses a URL of RFC 3617: "tftp://host[:port]/name", optionally followed by
// ";mode=octet" or ";mode=netascii". The slash after the host is not part of the name; for a name
// with a leading slash, the URL has two.
func ParseURL(s string) (Target, error) {
	u, err := url.Parse(s)
	shown := fmt.Sprintf("URL %q", s)
	if urlpath.MayHoldPassword(s) {
		shown = "a URL that is not shown, since it may hold a password"
		if err != nil {
			err = fmt.Errorf("%s: it is not of the form tftp://host/name", shown)
		}
	}
	if err != nil {
		return Target{}, err // the error already names the URL
	}
	fail := func(why string) (Target, error) { return Target{}, fmt.Errorf("%s: %s", shown, why) }
	t := Target{Host: u.Hostname(), Name: strings.TrimPrefix(u.Path, "/")}
	switch {
	case !strings.EqualFold(u.Scheme, "tftp"):
		return fail("not of the form tftp://host/name")
	case t.Host == "":
		return fail("no host")
	case strings.Contains(t.Host, ":") && !isAddr(t.Host):
		return fail("the host is no IPv6 address")
	case u.User != nil:
		return fail("TFTP has no users")
	case u.RawQuery != "" || u.Fragment != "":
		return fail("a ? or # in a name is written %3F or %23")
	}
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return fail("port out of range")
		}
		t.Port = uint16(n)
	}
	if name, mode, ok := strings.Cut(t.Name, ";mode="); ok {
		t.Name = name
		switch strings.ToLower(mode) {
		case "octet":
		case "netascii":
			t.Mode = transfer.Netascii
		default:
			return fail("mode is neither octet nor netascii")
		}
	}
	if strings.IndexByte(t.Name, 0) >= 0 {
		return fail("a name cannot hold a NUL")
	}
	return t, nil
}

// isAddr reports whether a host is an address. Package netip accepts any zone, but isAddr accepts
// only zones that can be the name of an interface and that a URL can express.
func isAddr(host string) bool {
	a, err := netip.ParseAddr(host)
	strange := func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("%[]/?#@", r) }
	return err == nil && strings.IndexFunc(a.Zone(), strange) < 0
}

// String returns the target as a URL.
func (t Target) String() string {
	host := t.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if t.Port != 0 && t.Port != transfer.Port {
		host = net.JoinHostPort(t.Host, strconv.Itoa(int(t.Port)))
	}
	u := url.URL{Scheme: "tftp", Host: host, Path: "/" + t.Name}
	if t.Mode == transfer.Netascii {
		u.Path += ";mode=netascii"
	}
	return u.String()
}

// port returns the port for requests.
func (t Target) port() uint16 {
	if t.Port == 0 {
		return transfer.Port
	}
	return t.Port
}

// Check returns an error for a target that no request can hold: a missing host or name, a NUL in
// the name, or a name longer than half of [transfer.MaxRequest].
func (t Target) Check() error {
	switch {
	case t.Host == "":
		return errors.New("no host given")
	case t.Name == "":
		return errors.New("no file name given")
	case strings.IndexByte(t.Name, 0) >= 0:
		return errors.New("a name cannot hold a NUL")
	case len(t.Name) > transfer.MaxRequest/2:
		return fmt.Errorf("name is longer than %d bytes", transfer.MaxRequest/2)
	}
	return nil
}

// peerAt returns the destination of requests for the target, given one of its host's addresses.
func (t Target) peerAt(ip netip.Addr) netip.AddrPort {
	return netip.AddrPortFrom(ip.Unmap(), t.port())
}

// maxHostAddrs is how many addresses of a host are tried. Each takes seconds if no server answers,
// and a name server may return thousands.
const maxHostAddrs = 8

// lookUpFew returns the addresses of a host that a client tries.
func lookUpFew(ctx context.Context, host string) ([]netip.Addr, error) {
	ips, err := packetio.LookUp(ctx, host)
	return ips[:min(len(ips), maxHostAddrs)], err
}
