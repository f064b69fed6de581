package httpd

import (
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/server/activity"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/cmd/haul/internal/server/ports"
	"github.com/haul-project/haul/internal/linequeue"
	"github.com/haul-project/haul/internal/shares"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/users"
	"github.com/haul-project/haul/web"
)

// A log writes the log of HTTP, and counts transfers for the metrics.
type log struct {
	*linequeue.Log
	counts *meter.Registry    // nil means that transfers are not counted
	report *activity.Reporter // nil means that there are no hooks and no audit log
	few    linequeue.Budget   // bounds the lines that strangers can cause
	away   ports.RefusedConns

	fewFiles string // advice to raise the limit on open files, if the limit is low; otherwise ""
}

func newLog(to *slog.Logger, counts *meter.Registry) *log {
	q := linequeue.NewLog(to)
	return &log{
		Log: q, counts: counts,
		few:  linequeue.Budget{RateLimited: linequeue.RateLimited{Log: q, Message: "http: lines left out", Unit: "lines"}},
		away: ports.NewRefusedConns(q, counts, meter.HTTP),
	}
}

// observe makes a handler report its requests and logins to the log.
func (l *log) observe(h *web.Handler) {
	h.Started, h.Ended, h.Audit = l.started, l.ended, l.attempt
}

func protocolOf(x *web.Exchange) meter.Protocol {
	if x.TLS {
		return meter.HTTPS
	}
	return meter.HTTP
}

func (l *log) begin(x *web.Exchange) *meter.Transfer {
	return l.counts.Begin(meter.Info{Protocol: protocolOf(x), Write: x.Method == http.MethodPut, Peer: x.Peer, Name: x.Name, User: x.User, Size: x.Size, Began: x.Began})
}

// started counts a transfer that begins.
func (l *log) started(x *web.Exchange) {
	m := l.begin(x)
	m.Follow(func() int64 { return x.Sent() + x.Received() })
	x.Value = m
}

// ended logs a request.
func (l *log) ended(x *web.Exchange) {
	level, result := outcomeOf(x)
	bytes := x.Sent() + x.Received()
	kind := slog.String("direction", "read")
	switch x.Method {
	case http.MethodGet, http.MethodHead:
		l.endTransfer(x, level, result, bytes)
	case http.MethodPut:
		kind = slog.String("direction", "write")
		l.endTransfer(x, level, result, bytes)
	default:
		kind = slog.String("operation", x.Method)
		l.report.Requested(protocolOf(x), x, result)
	}
	if !l.Enabled(level) {
		return
	}
	name, path := x.Name, x.Path
	if fruitless(x, result, bytes) {
		if !l.few.Take(time.Now(), failedRequests(x.User), shares.SourceOf(x.User, x.Peer.Addr()), ports.PeerText(x.Peer)) {
			return
		}
		name, path, kind = linequeue.ShortName(name), linequeue.ShortName(path), slog.String(kind.Key, linequeue.ShortName(kind.Value.String()))
	}
	attrs := append(make([]slog.Attr, 0, 14), slog.String("result", string(result)), kind, slog.String("file", name))
	if x.User != "" {
		attrs = append(attrs, slog.String("user", x.User))
	}
	attrs = append(attrs,
		slog.String("peer", ports.PeerText(x.Peer)),
		slog.Int("status", x.Status),
		slog.Int64("bytes", bytes),
		slog.Duration("duration", x.Duration.Round(time.Microsecond)),
		slog.Int64("rate", console.PerSecond(bytes, x.Duration)))
	if path != "" {
		attrs = append(attrs, slog.String("path", path))
	}
	if x.Range != "" {
		attrs = append(attrs, slog.String("range", x.Range))
	}
	if x.Agent != "" {
		attrs = append(attrs, slog.String("client", x.Agent))
	}
	if x.Err != nil {
		attrs = append(attrs, slog.String("error", linequeue.ShortError(x.Err.Error())))
	}
	switch {
	case errors.Is(x.Err, web.ErrNotListed):
		attrs = append(attrs, slog.String("advice", "--listing shows directories"))
	case errors.Is(x.Err, web.ErrManyOpen) && l.fewFiles != "":
		attrs = append(attrs, slog.String("advice", l.fewFiles))
	}
	l.Say(level, "http", attrs...)
}

// failedRequests returns the cause of lines about requests that have failed. The requests of strangers
// do not hide those of users who have logged in.
func failedRequests(user string) string {
	if user != "" {
		return "failed requests of users"
	}
	return "failed requests"
}

// fruitless reports whether a request moved no byte and may have named a file that does not exist.
// A stranger can send any number of such requests.
func fruitless(x *web.Exchange, result meter.Result, bytes int64) bool {
	switch {
	case bytes > 0:
		return false
	case x.Method == http.MethodOptions, x.Status == http.StatusAccepted: // no matter whether the file exists
		return true
	}
	return result != meter.Done && result != meter.Probe
}

// endTransfer counts the end of a request that has transferred a file, or should have transferred
// one.
func (l *log) endTransfer(x *web.Exchange, level slog.Level, result meter.Result, bytes int64) {
	m, ok := x.Value.(*meter.Transfer)
	if !ok {
		m = l.begin(x)
	}
	m.End(meter.End{Result: result, Bytes: bytes, Duration: x.Duration, File: x.Name, Path: x.Path, Err: x.Err, Detail: x, Routine: level < slog.LevelWarn})
}

// outcomeOf returns the result of a request, and the level of its log line. As with the other
// protocols, the level is a warning in two cases: if a write was refused or failed, and if a read
// was forbidden or failed on this side. A missing file does not cause a warning, because clients
// often ask for one. An authentication challenge does not count as a refused write, and neither
// does a condition that does not hold.
func outcomeOf(x *web.Exchange) (slog.Level, meter.Result) {
	_, ofFile := errors.AsType[*fs.PathError](x.Err)
	switch {
	case errors.Is(x.Err, web.ErrShutdown):
		return slog.LevelWarn, meter.Failed
	case errors.Is(x.Err, web.ErrLoginEnded):
		return slog.LevelWarn, meter.Refused
	case errors.Is(x.Err, web.ErrGivenUp):
		return slog.LevelInfo, meter.PeerEnded
	case errors.Is(x.Err, web.ErrCutOff):
		return slog.LevelWarn, meter.PeerEnded
	case errors.Is(x.Err, os.ErrDeadlineExceeded):
		return slog.LevelWarn, meter.PeerSilent
	case x.Status >= 500, x.Status == 0:
		return slog.LevelWarn, meter.Failed
	case x.Status == http.StatusForbidden, x.Status == http.StatusTooManyRequests, refusedWrite(x):
		return slog.LevelWarn, meter.Refused
	case x.Status >= 400:
		return slog.LevelInfo, meter.Refused
	case x.Err == nil && x.Method == http.MethodHead:
		return slog.LevelInfo, meter.Probe
	case x.Err == nil:
		return slog.LevelInfo, meter.Done
	case ofFile, errors.Is(x.Err, web.ErrShrunk), errors.Is(x.Err, store.ErrUnavailable):
		return slog.LevelWarn, meter.Failed
	}
	return slog.LevelInfo, meter.PeerEnded
}

// refusedWrite reports whether the server refused a request to write or to remove a file.
func refusedWrite(x *web.Exchange) bool {
	if x.Method != http.MethodPut && x.Method != http.MethodDelete {
		return false
	}
	switch x.Status {
	case http.StatusUnauthorized, http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable, http.StatusLocked:
		return false
	}
	return x.Status >= 400
}

// attempt logs the result of a password check.
func (l *log) attempt(e users.Event) {
	l.report.Login(meter.HTTP, ports.PeerText(e.Peer), e)
	level, result := slog.LevelInfo, "accepted"
	if e.Outcome != users.Accepted {
		level, result = slog.LevelWarn, "refused"
		if !l.Enabled(level) || !l.few.Take(time.Now(), "failed logins", shares.SourceOf("", e.Peer), ports.PeerText(e.Peer)) {
			return
		}
	}
	attrs := append(make([]slog.Attr, 0, 5), slog.String("result", result), slog.String("user", linequeue.ShortName(e.User)),
		slog.String("peer", ports.PeerText(e.Peer)), slog.String("method", e.Method))
	if e.Reason != "" {
		attrs = append(attrs, slog.String("error", e.Reason))
	}
	l.Say(level, "http login", attrs...)
}

// maxServerError is how many bytes of a net/http error are logged. The error may contain the stack
// of a panic.
const maxServerError = 8 << 10

// An errorWriter writes the errors of package net/http to the log. A client can cause any number of
// them, for example by frames of HTTP/2 that are wrong.
type errorWriter struct{ *log }

// Write logs an error, unless there were too many.
func (w errorWriter) Write(text []byte) (int, error) {
	if w.few.Take(time.Now(), "net/http", shares.Source{}, "net/http") { // it is not known which client has caused the error
		w.Say(slog.LevelWarn, strings.TrimSpace(string(text[:min(len(text), maxServerError)])))
	}
	return len(text), nil
}
