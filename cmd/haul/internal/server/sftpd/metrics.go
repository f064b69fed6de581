package sftpd

import (
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/ports"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/tcp"
)

// registerMetrics registers the counters of an SFTP server.
func registerMetrics(counts *meter.Registry, srv *sftp.Server, accept *tcp.Server, linesLost func() int64) {
	for _, c := range []struct {
		name, help string
		value      func(sftp.Counters) int64
	}{
		{"sftp_logins_total", "Logins that succeeded.", func(c sftp.Counters) int64 { return c.Logins }},
		{"sftp_login_failures_total", "Connections that ended without a login.", func(c sftp.Counters) int64 { return c.Failures }},
		{"sftp_crashes_total", "Connections that a fault of the program ended.", func(c sftp.Counters) int64 { return c.Panics }},
	} {
		counts.Counter(c.name, c.help, func() int64 { return c.value(srv.Counters()) })
	}
	for _, g := range []struct {
		name, help string
		value      func(sftp.Counters) int64
	}{
		{"sftp_connections", "SSH connections.", func(c sftp.Counters) int64 { return int64(c.Conns) }},
		{"sftp_handshakes", "SSH connections that are not logged in.", func(c sftp.Counters) int64 { return int64(c.Handshakes) }},
		{"sftp_sessions", "Channels that speak SFTP.", func(c sftp.Counters) int64 { return c.Sessions }},
		{"sftp_handles", "Files and directories that clients have open.", func(c sftp.Counters) int64 { return c.Handles }},
	} {
		counts.Gauge(g.name, g.help, func() float64 { return float64(g.value(srv.Counters())) })
	}
	counts.Connections(meter.SFTP, ports.ConnServer(accept))
	counts.Counter("sftp_log_lines_lost_total", "Lines on SFTP for which the log was too slow.", linesLost)
}
