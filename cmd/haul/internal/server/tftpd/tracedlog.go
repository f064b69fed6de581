package tftpd

import (
	"context"
	"log/slog"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/tftp/trace"
)

// A tracedLog delays each log line until the trace has written all packets so far. So if the log
// and the trace are written to the same place, a line follows the packets that it is about.
type tracedLog struct {
	slog.Handler
	tracer *trace.Recorder
}

// maxTraceWait is how long a log line waits for the trace at most.
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
