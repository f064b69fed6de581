package serve

import (
	"io"
	"log/slog"

	"github.com/haul-project/haul/cmd/haul/internal/server/settings"
	"github.com/haul-project/haul/cmd/haul/internal/server/source"
	"github.com/haul-project/haul/cmd/haul/internal/tftp/trace"
)

// DryRun does the same as [Run], but stops before it opens sockets, and writes what Run would
// serve. It creates no files: neither host keys nor packet recordings. With Boot.Advise it writes
// only the advice.
func DryRun(cfg settings.Config, out io.Writer) error {
	if err := cfg.Check(); err != nil {
		return err
	}
	s := newServer(cfg, out)
	s.cfg.Trace, s.cfg.Cache = trace.Setup{}, source.Caching{}
	s.env.Log, s.env.Out = slog.New(slog.DiscardHandler), io.Discard
	err := s.open()
	defer s.close()
	if err != nil {
		return err
	}
	s.env.Out = out
	if cfg.Boot.Advise != "" {
		return s.boot.Advise(out)
	}
	announceDryRun(&cfg, s.env.Say)
	if cfg.Boot.Answer {
		s.boot.Announce()
	}
	return nil
}
