// Package service provides the parts that the services of one server share: the log, the counters,
// the upstreams, and helpers for several protocols.
package service

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/notify"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
	"github.com/haul-project/haul/cmd/haul/internal/server/source"
)

// An Env holds the data that all services of a server share. Package serve creates it.
type Env struct {
	Out  io.Writer // receives the messages that are not part of the log, such as the server's addresses
	JSON bool      // the messages to Out are lines of JSON, as is the log
	Log  *slog.Logger

	Counts   *meter.Registry // counts transfers; nil means that nothing is counted
	Sources  source.Set      // the upstreams
	Notifier notify.Notifier // passes reports to the hooks and the audit log

	// Owners are the IDs of the users that the server runs as, at first and later. Files that
	// authentication depends on must belong to one of them or to root.
	Owners []int

	// Predecessor is the process whose sockets this one takes over; nil if no server ran before.
	Predecessor *handover.Predecessor

	// Requested is called for each file that a client opens without a login. It is nil if the
	// server does not answer boot clients.
	Requested func(site.Client, string)
}

// Say prints a message that is not part of the log.
func (e *Env) Say(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); e.JSON {
		slog.New(slog.NewJSONHandler(e.Out, nil)).Info(text)
	} else {
		fmt.Fprintf(e.Out, "haul: %s\n", console.Visible(text))
	}
}

// A SayFunc writes a line of the log.
type SayFunc = func(slog.Level, string, ...slog.Attr)

// SayTo returns a SayFunc that writes to a log.
func SayTo(log *slog.Logger) SayFunc {
	return func(level slog.Level, msg string, attrs ...slog.Attr) {
		log.LogAttrs(context.Background(), level, msg, attrs...)
	}
}
