package tftp

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strconv"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// A report is what is told of a transfer that has ended.
type report struct {
	peer     netip.AddrPort
	request  transfer.Request
	agreed   transfer.Options
	bytes    int64
	duration time.Duration
	stats    transfer.Stats
	err      error
}

// summary gathers the report of a session that ended by err, or well.
func (s *session) summary(now time.Time, err error) report {
	r := report{
		peer:     s.peer,
		request:  s.request,
		duration: now.Sub(s.began),
		err:      err,
	}
	switch {
	case s.state == opening: // the machine has not begun
	case s.request.Write:
		r.bytes, r.agreed, r.stats = s.receiver.Received(), s.receiver.Agreed(), s.receiver.Stats()
	default:
		r.bytes, r.agreed, r.stats = s.sender.Acked(), s.sender.Agreed(), s.sender.Stats()
	}
	return r
}

// How a transfer ended, in one word for logs.
const (
	resultDone        = "done"
	resultUnconfirmed = "unconfirmed" // the last ACK never came
	resultProbe       = "probe"       // the peer wanted to know the size only
	resultRefused     = "refused"     // we said no
	resultPeer        = "ended by peer"
	resultSilent      = "peer silent"
	resultReplaced    = "replaced" // the peer began anew
	resultFailed      = "failed"
)

// result says how the transfer ended.
func (r *report) result() string {
	var fault *transfer.Error
	switch {
	case r.err == nil && r.stats.Unconfirmed:
		return resultUnconfirmed
	case r.err == nil:
		return resultDone
	case errors.As(r.err, &fault) && fault.Remote && r.isProbe(fault.Code):
		return resultProbe
	case errors.As(r.err, &fault) && fault.Remote:
		return resultPeer
	case errors.Is(r.err, transfer.ErrSilent):
		return resultSilent
	case errors.Is(r.err, errReplaced):
		return resultReplaced
	case r.stats.Sent == 0:
		return resultRefused
	}
	return resultFailed
}

// isProbe tells a size probe: firmware and iPXE ask for a file with tsize, and
// end the transfer by ERROR 0 or 8 when the OACK has told them.
func (r *report) isProbe(code transfer.ErrorCode) bool {
	return !r.request.Write && r.bytes == 0 && (code == transfer.NotDefined || code == transfer.OptionsRefused)
}

const (
	// maxLines is how many reports wait for the log. Beyond that they are
	// counted only: a log that nobody reads must not stop the server.
	maxLines = 4096

	// logGrace is how long a server that ends waits for its log.
	logGrace = time.Second
)

// log hands a report to the log. It never waits.
func (l *Listener) log(r report) {
	if l.Log == nil {
		return
	}
	select {
	case l.lines <- r:
	default:
		l.unsaid.Add(1)
	}
}

// keepLog writes the lines until there are no more, and then closes done.
func (l *Listener) keepLog(done chan<- struct{}) {
	defer close(done)
	for r := range l.lines {
		l.write(r)
		if n := l.unsaid.Swap(0); n > 0 {
			l.Log.Warn("tftp: the log was too slow", "lines lost", n)
		}
	}
	if l.Log != nil {
		l.Log.Debug("tftp ended", "stray datagrams", l.strays.Load(), "requests turned away", l.refused.Load(), "messages not sent", l.unsent.Load())
	}
}

// write writes a transfer's line.
func (l *Listener) write(r report) {
	result := r.result()
	level := slog.LevelInfo
	if r.err != nil && result != resultProbe {
		level = slog.LevelWarn
	}
	ctx := context.Background()
	if !l.Log.Enabled(ctx, level) {
		return
	}
	attrs := append(make([]slog.Attr, 0, 16),
		slog.String("result", result),
		slog.String("direction", direction(r.request)),
		slog.String("file", r.request.Name),
		slog.String("peer", r.peer.String()),
		slog.String("options", formatOptions(r.request.Mode, r.agreed)),
		slog.Int64("bytes", r.bytes),
		slog.Duration("duration", r.duration.Round(time.Microsecond)),
		slog.String("rate", formatRate(r.bytes, r.duration)),
		slog.Duration("rtt", r.stats.RTT.Round(time.Microsecond)),
		slog.Int64("resends", r.stats.Resent),
	)
	if r.err != nil {
		attrs = append(attrs, slog.String("error", r.err.Error()))
	}
	l.Log.LogAttrs(ctx, level, "tftp", attrs...)
}

// direction names what a request asks for, from the client's side.
func direction(q transfer.Request) string {
	if q.Write {
		return "write"
	}
	return "read"
}

// formatOptions puts the mode and what was agreed on in one string.
func formatOptions(m transfer.Mode, o transfer.Options) string {
	b := []byte(m.String())
	add := func(name string, v int64) {
		if v != 0 {
			b = append(append(append(b, ' '), name...), '=')
			b = strconv.AppendInt(b, v, 10)
		}
	}
	add("blksize", int64(o.BlockSize))
	add("windowsize", int64(o.Window))
	add("tsize", o.Size)
	add("timeout", int64(o.Timeout/time.Second))
	add("utimeout", o.MicroTimeout.Microseconds())
	if o.Rollover != transfer.RolloverDefault {
		b = append(b, " rollover="...)
		b = strconv.AppendInt(b, int64(o.Rollover-transfer.RolloverZero), 10)
	}
	return string(b)
}

// formatRate gives a rate in the unit in which links are compared.
func formatRate(bytes int64, d time.Duration) string {
	if d <= 0 {
		return "0 MB/s"
	}
	return strconv.FormatFloat(float64(bytes)/1e6/d.Seconds(), 'f', 2, 64) + " MB/s"
}
