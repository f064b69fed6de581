package serve

import (
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/activity"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/status"
)

// newCounts returns the registry for all transfers, and the board of the status page. The registry
// is nil if nothing reads its counts, and the board is nil if there is no status page.
func newCounts(cfg *settings.Config, report *activity.Reporter) (*meter.Registry, *status.Board) {
	if cfg.Metrics == "" && cfg.Status.Listen == "" && !cfg.Notify.Wanted() {
		return nil, nil
	}
	c := meter.Config{Version: cfg.Version}
	if report != nil {
		c.Ended = report.Ended
	}
	for _, name := range services(cfg) {
		if name != handover.Boot { // the boot service does not transfer files
			// A service has the same name in package handover as its protocol has in package meter.
			c.Protocols = append(c.Protocols, meter.Protocol(name))
		}
	}
	if cfg.Status.Listen == "" {
		return meter.New(c), nil
	}
	board := &status.Board{Version: cfg.Version, Protocols: c.Protocols}
	c.Ended = func(e meter.Ended) { board.Ended(e); report.Ended(e) }
	board.Transfers = meter.New(c)
	return board.Transfers, board
}

// registerReloads adds metrics for the results of reloads and restarts, under the names that
// Prometheus uses for its own reloads. After a successful restart, the new process starts its own
// counts.
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
