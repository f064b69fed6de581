package ports

import (
	"errors"
	"log/slog"
	"net"

	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/internal/linequeue"
	"github.com/haul-project/haul/internal/penalty"
	"github.com/haul-project/haul/tcp"
)

// notAllowed is the cause of connections that --allow and --deny refuse.
const notAllowed = "--allow and --deny"

// reasonOf maps the causes in the log to the reasons in the metrics.
var reasonOf = map[string]meter.Reason{
	notAllowed:                          meter.Denied,
	string(penalty.Penalized):           meter.Rate,
	string(penalty.TooManyConns):        meter.Busy,
	string(penalty.TooManyHandshakes):   meter.Busy,
	string(penalty.TooManyOfSource):     meter.Address,
	string(penalty.TooManyHandshakesOf): meter.Address,
}

// RefusedConns logs and counts refused connections.
type RefusedConns struct {
	linequeue.RateLimited
	registry *meter.Registry // counts the refused connections; may be nil
	protocol meter.Protocol
}

// NewRefusedConns returns the RefusedConns of a protocol. counts may be nil.
func NewRefusedConns(log *linequeue.Log, counts *meter.Registry, protocol meter.Protocol) RefusedConns {
	return RefusedConns{RateLimited: linequeue.RateLimited{Log: log, Message: string(protocol) + ": connections turned away"}, registry: counts, protocol: protocol}
}

// Add logs and counts a refused connection.
func (t *RefusedConns) Add(from net.Addr, cause string, more ...slog.Attr) {
	t.registry.Refuse(t.protocol, reasonOf[cause], 1)
	t.RateLimited.Count(slog.LevelWarn, cause, Peer(from), more...)
}

// Restrict makes a server refuse the networks that the settings exclude, and logs and counts the
// refused connections.
func (t *RefusedConns) Restrict(s *tcp.Server, cfg *settings.Config) {
	s.Allow, s.Deny = cfg.Allow, cfg.Deny
	s.Refused = func(from net.Addr, why error) {
		cause := string(penalty.TooManyConns)
		switch {
		case errors.Is(why, tcp.ErrDenied):
			cause = notAllowed
		case errors.Is(why, tcp.ErrSourceFull):
			cause = string(penalty.TooManyOfSource)
		}
		t.Add(from, cause)
	}
}
