package httpd

import (
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/ports"
	"github.com/haul-project/haul/web"
)

// RegisterMetrics registers the counters of HTTP.
func (s *Service) RegisterMetrics(counts *meter.Registry) {
	for _, c := range []struct {
		name, help string
		value      func(web.Counters) int64
	}{
		{"http_requests_total", "Requests answered.", func(c web.Counters) int64 { return c.Requests }},
		{"http_refused_total", "Requests answered by 4xx.", func(c web.Counters) int64 { return c.Refused }},
		{"http_failed_total", "Requests answered by 5xx, or not to the end.", func(c web.Counters) int64 { return c.Failed }},
		{"http_logins_total", "Passwords that were right, but for those known again.", func(c web.Counters) int64 { return c.Logins }},
		{"http_login_failures_total", "Passwords that were wrong.", func(c web.Counters) int64 { return c.Failures }},
	} {
		counts.Counter(c.name, c.help, func() int64 { return c.value(s.handler.Counters()) })
	}
	counts.Gauge("http_requests", "Requests under way.", func() float64 { return float64(s.handler.Counters().Active) })
	for _, p := range s.ports() {
		if len(p.sockets) > 0 {
			counts.Connections(meter.Protocol(p.scheme), ports.ConnServer(&p.accept))
		}
	}
	if s.expires != nil {
		counts.Gauge("certificate_expiry_timestamp_seconds", "When the certificate of HTTPS expires, in seconds since 1970.",
			func() float64 { return float64(s.expires().Unix()) })
	}
	counts.Counter("http_log_lines_lost_total", "Lines on HTTP for which the log was too slow.", s.log.Lost)
}
