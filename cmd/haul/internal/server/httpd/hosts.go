package httpd

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/httpend"
	"github.com/haul-project/haul/internal/certs"
)

// maxHost is how many bytes of a Host field are logged.
const maxHost = 100

// A strangeHost is the Host field of a request that is refused: see [httpend.Admits].
type strangeHost string

func (h strangeHost) Error() string {
	return fmt.Sprintf("%q is not a known name of this server, so the request may come from a stranger's page; if the name is right, add %s NAME", string(h[:min(len(h), maxHost)]), failure.Flag("http-host"))
}

// ForClient returns the text of the answer.
func (strangeHost) ForClient() string {
	return "this server does not know the name in the URL; use the server's IP address, or ask its administrator to add --http-host NAME"
}

// strangeHostKey is the key under which the context of a refused request contains its strangeHost.
type strangeHostKey struct{}

// checkHosts marks requests that may come from a stranger's page. The method account refuses them,
// so that they are logged and counted like other refusals. A server with users needs no check,
// because a browser does not send their passwords to a page's own name.
func (s *Service) checkHosts(p *port, next http.Handler) http.Handler {
	if s.sessions != nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		loopback := local != nil && slices.Contains(p.loopback, netip.AddrPortFrom(local.AddrPort().Addr().Unmap(), uint16(local.Port)))
		if !httpend.Admits(r, loopback, s.knowsHost) {
			r = r.WithContext(context.WithValue(r.Context(), strangeHostKey{}, strangeHost(r.Host)))
		}
		next.ServeHTTP(w, r)
	})
}

// knowsHost reports whether a name is one of this server: of the settings, of this machine, or of
// the certificate.
func (s *Service) knowsHost(name string) bool {
	if httpend.Known(s.hosts)(name) {
		return true
	}
	if s.secure.accept.TLS == nil {
		return false
	}
	c, err := s.secure.accept.TLS.GetCertificate(&tls.ClientHelloInfo{ServerName: name})
	return err == nil && c.Leaf != nil && c.Leaf.VerifyHostname(name) == nil
}

// hostsOf returns the names of this server: the given ones, those of its listen addresses, and that
// of the machine. Each name without a dot is also added with ".local", as in multicast DNS (RFC
// 6762).
func hostsOf(names []string, listen ...string) []string {
	all := slices.Concat(names, certs.HostsOf(listen...))
	for _, name := range all {
		if !strings.ContainsAny(name, ".:") {
			all = append(all, name+".local")
		}
	}
	return all
}
