package serve

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/tftp/trace"
)

// open starts a trace on out. It returns nil if no trace was asked for.
func (cfg *Trace) open(out io.Writer) (*trace.Recorder, error) {
	if !cfg.Text && cfg.Pcap == "" {
		return nil, nil
	}
	c := trace.Config{HexBytes: cfg.HexBytes, Only: cfg.Only}
	if cfg.Text {
		c.Text = out
	}
	r, err := trace.NewRecorder(c, cfg.Pcap)
	if err != nil {
		return nil, failure.Local.Errorf("write %s: %w", cfg.Pcap, console.WithoutPath(err))
	}
	return r, nil
}

// A tracedLog waits for the trace before it writes a line, so that lines come after their
// packets where both are written to one place.
type tracedLog struct {
	slog.Handler
	tracer *trace.Recorder
}

// maxTraceWait is how long a line waits for the trace.
const maxTraceWait = time.Second

func (l tracedLog) Handle(ctx context.Context, r slog.Record) error {
	l.tracer.Sync(maxTraceWait)
	return l.Handler.Handle(ctx, r)
}

func (l tracedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return tracedLog{l.Handler.WithAttrs(attrs), l.tracer}
}

func (l tracedLog) WithGroup(name string) slog.Handler {
	return tracedLog{l.Handler.WithGroup(name), l.tracer}
}
