package httpend

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Admits reports whether a server without logins may answer a request. A page of a stranger can give
// its own name the address of this server (DNS rebinding). To the browser, the server's answers then
// belong to the page. Such a request has the name of the page in its Host field. A request to change
// something has an Origin field too.
//
// So Admits checks the name if there is an Origin. If only this machine can reach the server, as
// loopback says, Admits checks all names, because such a server may hold what nobody else may read.
// In other cases any name will do, because programs may use names that the server does not know. A
// request without a name does not come from a browser.
func Admits(r *http.Request, loopback bool, knows func(name string) bool) bool {
	return r.Host == "" || !loopback && r.Header["Origin"] == nil || AdmitsHost(r.Host, knows)
}

// AdmitsHost reports whether the value of a Host field is an address, localhost, or a name that the
// function knows, which gets it without a port and without a dot at its end. An address cannot be
// rebound.
func AdmitsHost(host string, knows func(name string) bool) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host != "" && (strings.EqualFold(host, "localhost") || knows(host))
}

// Known returns a function that knows the given names, in any case.
func Known(names []string) func(string) bool {
	return func(name string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(name, n) })
	}
}

// Loopback reports whether only this machine can reach an address of a listener.
func Loopback(a net.Addr) bool {
	at, err := netip.ParseAddrPort(a.String())
	return err == nil && at.Addr().Unmap().IsLoopback()
}
