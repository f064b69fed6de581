package serve

import (
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/status"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/tcp"
	"github.com/haul-project/haul/tftp"
)

// counts returns the registry that all transfers are reported to, or nil if nobody is to learn
// of them.
func (cfg *Config) counts() *meter.Registry {
	if cfg.Metrics == "" && cfg.Status.Listen == "" && !cfg.Notify.Wanted() {
		return nil
	}
	c := meter.Config{Version: cfg.Version}
	cfg.notifier = cfg.Notify.New()
	report := cfg.notifier.Report
	if report != nil {
		c.Ended = report.Ended
	}
	for _, name := range cfg.services() {
		if name != handover.Boot { // which transfers no files
			c.Protocols = append(c.Protocols, meter.Protocol(name)) // both packages have the same names
		}
	}
	if cfg.Status.Listen == "" {
		return meter.New(c)
	}
	board := &status.Board{Version: cfg.Version, Protocols: c.Protocols}
	c.Ended = func(e meter.Ended) { board.Ended(e); report.Ended(e) }
	board.Transfers = meter.New(c)
	cfg.status.board = board
	return board.Transfers
}

// registerReloads adds how reloads and restarts end, by the names that Prometheus has for its
// own. One that succeeds begins a process, with counts of its own.
func registerReloads(counts *meter.Registry, r *handover.Restarter) {
	read := float64(time.Now().Unix())
	counts.Gauge("config_last_reload_success_timestamp_seconds", "When this process read its settings.", func() float64 { return read })
	counts.Gauge("config_last_reload_successful", "0 if the latest reload or restart failed, and this process continues with the settings that it has; otherwise 1.", func() float64 {
		if r.Failed() {
			return 0
		}
		return 1
	})
}

// countTransfers sets the hooks that count a server's transfers.
func countTransfers(srv *tftp.Config, counts *meter.Registry) {
	begin := func(t *tftp.Transfer) *meter.Transfer {
		return counts.Begin(meter.Info{Protocol: meter.TFTP, Write: t.Write, Peer: t.Peer, Name: t.Name, Size: t.Size, Began: t.Began})
	}
	srv.Hooks.Started = func(t *tftp.Transfer) {
		m := begin(t)
		m.Follow(func() int64 { return t.Progress().Bytes })
		m.Measure(func() meter.Way {
			p := t.Progress()
			return meter.Way{RTT: p.RTT, Window: p.Window, Resent: p.Resent}
		})
		t.Value = m
	}
	srv.Hooks.Ended = func(t *tftp.Transfer) {
		m, started := t.Value.(*meter.Transfer)
		if !started {
			m = begin(t)
		}
		m.End(meter.End{
			Result:     meter.Result(t.Outcome),
			Bytes:      t.Bytes,
			Duration:   t.Duration,
			RTT:        t.RTT,
			Sent:       t.Sent,
			Resent:     t.Resent,
			Duplicates: t.Duplicates,
			Timeouts:   t.Timeouts,
			File:       t.Name,
			Path:       t.Path,
			Stored:     t.Stored,
			Err:        t.Err,
			Routine:    t.Routine(),
			Detail:     t,
		})
	}
	srv.Hooks.TurnedAway = func(why tftp.Reason, n int64) { counts.Refuse(meter.TFTP, meter.Reason(why.String()), n) }
}

// registerTFTPMetrics adds the counts of a listener.
func registerTFTPMetrics(counts *meter.Registry, l *tftp.Server) {
	for _, c := range []struct {
		name, help string
		value      func(tftp.Counters) int64
	}{
		{"tftp_datagrams_received_total", "Datagrams received.", func(c tftp.Counters) int64 { return c.PacketsIn }},
		{"tftp_datagrams_sent_total", "Datagrams sent.", func(c tftp.Counters) int64 { return c.PacketsOut }},
		{"tftp_received_bytes_total", "Bytes of TFTP packets received.", func(c tftp.Counters) int64 { return c.BytesIn }},
		{"tftp_sent_bytes_total", "Bytes of TFTP packets sent.", func(c tftp.Counters) int64 { return c.BytesOut }},
		{"tftp_strays_total", "Datagrams that belonged to no transfer.", func(c tftp.Counters) int64 { return c.Strays }},
		{"tftp_unsent_total", "Datagrams that the kernel did not accept.", func(c tftp.Counters) int64 { return c.Unsent }},
		{"tftp_crashes_total", "Transfers that a fault of the program ended.", func(c tftp.Counters) int64 { return c.Crashes }},
		{"log_lines_lost_total", "Lines for which the log was too slow.", func(c tftp.Counters) int64 { return c.LinesLost }},
	} {
		counts.Counter(c.name, c.help, func() int64 { return c.value(l.Counters()) })
	}
	counts.Gauge("tftp_resting", "Transfers that have ended, and still answer repeats.", func() float64 { return float64(l.Counters().Dallying) })
	counts.Gauge("tftp_buffer_bytes", "Bytes that transfers hold in buffers.", func() float64 { return float64(l.Counters().Held) })
}

// registerMetrics adds the counts of a server of SFTP.
func (s *sftpService) registerMetrics(counts *meter.Registry) {
	for _, c := range []struct {
		name, help string
		value      func(sftp.Counters) int64
	}{
		{"sftp_logins_total", "Logins that succeeded.", func(c sftp.Counters) int64 { return c.Logins }},
		{"sftp_login_failures_total", "Connections that ended without a login.", func(c sftp.Counters) int64 { return c.Failures }},
		{"sftp_crashes_total", "Connections that a fault of the program ended.", func(c sftp.Counters) int64 { return c.Panics }},
	} {
		counts.Counter(c.name, c.help, func() int64 { return c.value(s.srv.Counters()) })
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
		counts.Gauge(g.name, g.help, func() float64 { return float64(g.value(s.srv.Counters())) })
	}
	counts.Connections(meter.SFTP, connServer(&s.accept))
	counts.Counter("sftp_log_lines_lost_total", "Lines on SFTP for which the log was too slow.", s.log.Lost)
}

// connServer gives package meter the connections of a server.
func connServer(s *tcp.Server) meter.ConnServer {
	return meter.ConnServer{
		Counters: func() meter.ConnCounters { return meter.ConnCounters(s.Counters()) },
		Peers: func(yield func(meter.Peer) bool) {
			for p := range s.Peers() {
				if !yield(meter.Peer(p)) {
					return
				}
			}
		},
	}
}
