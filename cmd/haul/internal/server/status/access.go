package status

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Loopback reports whether a configured address, HOST:PORT, can be reached only from this
// machine.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err == nil && (strings.EqualFold(host, "localhost") || isLoopback(host))
}

func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// admit returns a handler that passes on only requests that may be answered, and that limits how
// long each answer may take.
func (s *Server) admit(c Config, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// This cannot fail, because connections of net/http support deadlines.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.limits.answer))
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		switch {
		case c.Login != nil:
			var ok bool
			if r, ok = c.Login.admit(w, r); !ok {
				return
			}
		case !admitsHost(r.Host, c.Hosts):
			http.Error(w, "This server answers to localhost and to its addresses only; --status-host NAME adds a name.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// admitsHost reports whether the value of a Host header is a name or address of this server. A
// request with any other name may come from a stranger's page: see Config.Hosts.
func admitsHost(host string, names []string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return strings.EqualFold(host, "localhost") || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(host, n) })
}
