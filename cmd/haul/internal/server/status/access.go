package status

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/httpend"
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
		case !httpend.AdmitsHost(r.Host, httpend.Known(c.Hosts)):
			http.Error(w, "This server answers to localhost and to its addresses only; --status-host NAME adds a name.", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
