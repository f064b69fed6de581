package httpd

import (
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/haul-project/haul/cmd/haul/internal/server/service"
)

// forwardedFields are header fields in which a proxy sends its own name or the client's address
// (RFC 7239 §4, RFC 9110 §7.6.3).
var forwardedFields = strings.Fields("Forwarded X-Forwarded-For X-Real-Ip Via")

const forwardedAdvice = "all clients of a proxy count as one: for limits, for lockouts, in the log, and for uploads in parts, which any of them can resume; " +
	"have the proxy send PROXY headers, and add --http-proxy NETWORKS"

// watchForwarded warns once if a request contains one of forwardedFields, because it probably comes
// from a proxy that does not send PROXY headers. haul does not evaluate these fields, because any
// client can send them.
func watchForwarded(h http.Handler, say service.SayFunc) http.Handler {
	var warned atomic.Bool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !warned.Load() {
			for _, field := range forwardedFields {
				if len(r.Header[field]) > 0 && !warned.Swap(true) {
					say(slog.LevelWarn, "http: requests seem to come through a proxy", slog.String("field", field),
						slog.String("peer", r.RemoteAddr), slog.String("advice", forwardedAdvice))
				}
			}
		}
		h.ServeHTTP(w, r)
	})
}
