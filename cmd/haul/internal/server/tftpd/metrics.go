package tftpd

import (
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/tftp"
)

// countTransfers sets the hooks of a server that report its transfers to counts.
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

// registerMetrics registers the counters of a TFTP server.
func registerMetrics(counts *meter.Registry, l *tftp.Server) {
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
