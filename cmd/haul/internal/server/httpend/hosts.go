package httpend

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Admits reports whether a server without logins may answer a request. A stranger's page can give
// its own name the address of this server (DNS rebinding), and the browser then takes the server's
// answers for the page's own. A request from such a page has the page's name in its Host field. If
// it is to change something, it has an Origin field too.
//
// So Admits checks the name if there is an Origin. If loopback is true, only this machine can reach
// the server, which may hold data that nobody else may read, so Admits checks the name in every
// request. Otherwise a request without an Origin may have any name, because programs may use names
// that the server does not know. A request without a name does not come from a browser.
func Admits(r *http.Request, loopback bool, knows func(name string) bool) bool {
	return r.Host == "" || !loopback && r.Header["Origin"] == nil || AdmitsHost(r.Host, knows)
}

// AdmitsHost reports whether the value of a Host field is an address, localhost, or a name that
// knows accepts. knows gets the name without its port and without a trailing dot. An address needs
// no check, because it cannot be rebound.
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

// Known returns a function that reports whether a name is one of names. It ignores case.
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
