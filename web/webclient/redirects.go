package webclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"

	"github.com/haul-project/haul/internal/servertext"
)

// A redirectGuard restricts the connections of a client with [Config.Redirect]. An attacker may
// control the server, the servers that it redirects to, and all their names. The guard keeps the
// attacker from making this machine read from its own network.
type redirectGuard struct {
	base     *url.URL
	internal func(netip.AddrPort) bool // isInternal, except in tests

	// public says for each server, as HOST:PORT, whether a connection to a public address was made.
	// Its size is bounded by what Config.Redirect allows. mu guards it.
	mu     sync.Mutex
	public map[string]bool
}

// A destination is the server of one request. The dialer gets it from the request's context.
type destination struct {
	host       string // HOST:PORT
	own        bool   // it is the host of the client's URL
	fromPublic bool   // a server with a public address has led to it
	proxied    bool   // the connection goes to a proxy, which looks up the name
}

type destinationKey struct{}

// enter returns a context for the connection of a request.
func (g *redirectGuard) enter(req *http.Request) (context.Context, error) {
	to := destination{host: hostPort(req.URL), own: strings.EqualFold(req.URL.Hostname(), g.base.Hostname())}
	if proxy, err := http.ProxyFromEnvironment(req); err == nil && proxy != nil {
		to.proxied = true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	to.fromPublic = g.public[hostPort(g.base)]
	for r := req.Response; r != nil; r = r.Request.Response {
		to.fromPublic = to.fromPublic || g.public[hostPort(r.Request.URL)]
	}
	if to.proxied {
		g.public[to.host] = true // its address is unknown
	} else if public, known := g.public[to.host]; !to.own && to.fromPublic && known && !public {
		return nil, internalError(to.host) // an open connection may exist, which would not be checked
	}
	return context.WithValue(req.Context(), destinationKey{}, to), nil
}

// check returns an error if a request may not go to an address. Nothing was sent there yet.
func (g *redirectGuard) check(ctx context.Context, address string) error {
	to, _ := ctx.Value(destinationKey{}).(destination)
	at, err := netip.ParseAddrPort(address)
	switch {
	case err != nil || to.proxied || !to.fromPublic || !g.internal(at):
		return nil
	case to.own && at.Addr().Unmap().IsPrivate():
		return nil // some networks have both public and private addresses for a name
	}
	return internalError(to.host)
}

func internalError(host string) error {
	return redirectError{fmt.Errorf("%w: a server with a public address leads to %s, which has an internal address; to read from there, use its own URL", ErrProtocol, servertext.Cut(host))}
}

// dialer returns a dialer that checks each address before it connects.
func (g *redirectGuard) dialer(d *net.Dialer, own dialer) dialer {
	d.ControlContext = func(ctx context.Context, _, address string, _ syscall.RawConn) error { return g.check(ctx, address) }
	dial := d.DialContext
	if own != nil {
		dial = own
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if refused, ok := errors.AsType[redirectError](err); ok {
			return nil, refused // without the net.OpError, which would mean that the server is away
		}
		if err != nil {
			return nil, err
		}
		address := conn.RemoteAddr().String()
		if err := g.check(ctx, address); err != nil {
			_ = conn.Close()
			return nil, err
		}
		to, _ := ctx.Value(destinationKey{}).(destination)
		if at, err := netip.ParseAddrPort(address); err == nil && to.host != "" {
			g.mu.Lock()
			g.public[to.host] = g.public[to.host] || !g.internal(at)
			g.mu.Unlock()
		}
		return conn, nil
	}
}

// isUpgrade reports whether a redirect leads from http to https on the same host, with the usual
// ports.
func isUpgrade(from, to *url.URL) bool {
	return strings.EqualFold(from.Hostname(), to.Hostname()) && from.Scheme == "http" && portOf(from) == "80" && to.Scheme == "https" && portOf(to) == "443"
}

func hostPort(u *url.URL) string { return net.JoinHostPort(strings.ToLower(u.Hostname()), portOf(u)) }

// notPublic4 lists IPv4 networks that are not on the internet and for which [netip.Addr] has no
// method (RFC 6890, RFC 6598).
var notPublic4 = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"),
}

var (
	public6 = netip.MustParsePrefix("2000::/3")
	teredo  = netip.MustParsePrefix("2001::/32")

	// The addresses of these networks contain an IPv4 address: NAT64 (RFC 6052) and 6to4 (RFC 3056).
	nat64  = netip.MustParsePrefix("64:ff9b::/96")
	sixTo4 = netip.MustParsePrefix("2002::/16")
)

// isInternal reports whether an address is one of this machine or of a network that is not part of
// the internet. A server on the internet has no reason to lead there.
func isInternal(at netip.AddrPort) bool {
	a := at.Addr().Unmap().WithZone("")
	b := a.As16()
	switch {
	case nat64.Contains(a):
		a = netip.AddrFrom4([4]byte(b[12:]))
	case sixTo4.Contains(a):
		a = netip.AddrFrom4([4]byte(b[2:6]))
	}
	if a.Is6() {
		return !public6.Contains(a) || teredo.Contains(a)
	}
	for _, p := range notPublic4 {
		if p.Contains(a) {
			return true
		}
	}
	return !a.IsGlobalUnicast() || a.IsPrivate()
}
