package serve

import (
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
)

// forwardedFields are header fields by which proxies name themselves and the client
// (RFC 7239 §4, RFC 9110 §7.6.3).
var forwardedFields = strings.Fields("Forwarded X-Forwarded-For X-Real-Ip Via")

const forwardedAdvice = "all clients of a proxy count as one: for limits, for lockouts, in the log, and for uploads in parts, which any of them can resume; " +
	"have the proxy send PROXY headers, and add --http-proxy NETWORKS"

// watchForwarded warns once of a proxy that sends no PROXY headers. The fields are not
// trusted: anybody can send them.
func (s *httpService) watchForwarded(h http.Handler) http.Handler {
	if len(s.cfg.HTTP.Proxies) > 0 || s.cfg.HTTP.UnixProxies {
		return h
	}
	var warned atomic.Bool
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !warned.Load() {
			for _, field := range forwardedFields {
				if len(r.Header[field]) > 0 && !warned.Swap(true) {
					s.log.Say(slog.LevelWarn, "http: requests seem to come through a proxy", slog.String("field", field),
						slog.String("peer", r.RemoteAddr), slog.String("advice", forwardedAdvice))
				}
			}
		}
		h.ServeHTTP(w, r)
	})
}
