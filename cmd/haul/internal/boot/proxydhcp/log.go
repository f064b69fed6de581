package proxydhcp

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
	"github.com/haul-project/haul/internal/linequeue"
	"github.com/haul-project/haul/internal/shares"
)

// maxLines is the largest number of log lines per second about boot clients that get no answer, or
// whose answer cannot be sent. The limit is needed because anyone on the network can send such
// requests. Further lines are left out, and their number is logged.
const maxLines = 20

// An eventLog logs and counts the packets of boot clients, and what became of them. Packets of
// other DHCP clients are logged only if trace is set.
type eventLog struct {
	*linequeue.Log
	few    linequeue.Budget // bounds the lines about answers and files, and logs how many lines were left out
	trace  bool
	dryRun bool

	replies    [pxe.NumArchs][pxe.NumForms]atomic.Int64
	unanswered [pxe.NumReasons]atomic.Int64

	mu     sync.Mutex
	second time.Time // when lines was last reset; guarded by mu
	lines  int       // number of lines logged since the time in `second`; guarded by mu
}

func newEventLog(log *slog.Logger, trace, dryRun bool) *eventLog {
	q := linequeue.NewLog(log)
	return &eventLog{
		Log: q, trace: trace, dryRun: dryRun,
		few: linequeue.Budget{RateLimited: linequeue.RateLimited{Log: q, Message: "boot: lines left out", Unit: "packets"}},
	}
}

// report logs a packet and counts it.
func (l *eventLog) report(e Event) {
	a := &e.Answer
	result, level := "offered", slog.LevelInfo
	switch {
	case a.Reason != pxe.Answered:
		l.unanswered[a.Reason].Add(1)
		result = "unanswered"
	case e.Err != nil:
		result, level = "failed", slog.LevelWarn
	case l.dryRun:
		result = "would be offered"
	default:
		l.replies[a.Client.Arch][a.Form].Add(1)
	}
	// A boot client also sends packets to its DHCP server, such as a REQUEST. This server need not
	// answer them.
	boots := a.Client.Class != pxe.NoClass && a.Reason != pxe.NotDiscover
	if !boots && !l.trace || !l.takes(e) {
		return
	}
	attrs := []slog.Attr{slog.String("result", result), slog.String("mac", a.MAC.String()), slog.String("client", a.Client.Class.String()), slog.String("arch", a.Client.Arch.String())}
	if a.Reason != pxe.Answered {
		attrs = append(attrs, slog.String("why", a.Why()))
	} else {
		attrs = append(attrs, slog.String("form", a.Form.String()), slog.String("file", a.File))
	}
	attrs = append(attrs, slog.String("on", e.Interface))
	if l.trace {
		attrs = append(attrs, slog.Any("peer", e.From), slog.Int("port", int(e.Port)), packetAttr("request", e.Request))
		if a.Packet != nil {
			attrs = append(attrs, slog.String("to", fmt.Sprintf("%v:%d", a.To, a.ToPort)), packetAttr("answer", a.Packet))
		}
	}
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	}
	l.Say(level, "boot", attrs...)
}

// staged logs that a machine has reached another stage. file is the name of the requested file that
// caused this; "" if no request did.
func (l *eventLog) staged(m pxe.Machine, file string) {
	// A whole room of machines may get stuck at once, so the number of lines about stuck machines
	// is limited. Requests for files may be forged, so each machine has a share of their lines.
	if file == "" && !l.takesLine(m.Stage.String(), m.MAC) || file != "" && !l.takesFew("requests for files", m.MAC) {
		return
	}
	level := slog.LevelInfo
	attrs := []slog.Attr{slog.String("result", m.Stage.String()), slog.String("mac", m.MAC.String()), slog.String("client", m.Client.Class.String()),
		slog.String("arch", m.Client.Arch.String()), slog.String("peer", m.Addr.String())}
	switch {
	case m.Stage == pxe.Stuck:
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("why", "nothing came after the stage "+m.Before.String()))
	case file != "":
		attrs = append(attrs, slog.String("file", linequeue.ShortName(file)))
	}
	l.Say(level, "boot", attrs...)
}

// takes reports whether a line about e may be logged now. Each machine has a share of the lines about
// answers, because its requests may be forged.
func (l *eventLog) takes(e Event) bool {
	cause := e.Answer.Reason.String()
	switch {
	case l.trace:
		return true
	case e.Err != nil:
		cause = "the answer cannot be sent"
	case e.Answer.Reason == pxe.Answered:
		return l.takesFew("answers", e.Answer.MAC)
	}
	return l.takesLine(cause, e.Answer.MAC)
}

// takesLine reports whether a line about the machine with a MAC may be logged now. It is for lines
// whose number is not limited in another way.
func (l *eventLog) takesLine(cause string, mac dhcp.MAC) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.second) >= time.Second {
		l.second, l.lines = now, 0
	}
	if l.lines++; l.lines <= maxLines {
		return true
	}
	l.few.Count(slog.LevelWarn, cause, mac.String())
	return false
}

// takesFew reports whether a line at the level of information may be logged, of which a machine has a
// share.
func (l *eventLog) takesFew(cause string, mac dhcp.MAC) bool {
	return l.Enabled(slog.LevelInfo) && l.few.Take(time.Now(), cause, shares.Source{User: mac.String()}, mac.String())
}

// Close writes the lines that are still queued.
func (l *eventLog) Close() {
	l.few.Flush()
	l.Log.Close()
}

// registerMetrics registers the counters, and the numbers of machines at each stage.
func (l *eventLog) registerMetrics(r *meter.Registry, srv *Server) {
	for arch := range l.replies {
		for form := range l.replies[arch] {
			r.Counter("boot_replies_total", "Answers to boot clients.", l.replies[arch][form].Load,
				"arch", pxe.Arch(arch).String(), "form", pxe.Form(form).String())
		}
	}
	for reason := range l.unanswered {
		if why := pxe.Reason(reason); why != pxe.Answered {
			r.Counter("boot_unanswered_total", "Packets of DHCP clients that were not answered.", l.unanswered[reason].Load, "reason", why.String())
		}
	}
	for stage := pxe.Offered; stage < pxe.NumStages; stage++ {
		r.Gauge("boot_machines", "Machines that booted lately, by how far they have come.", func() float64 {
			return float64(srv.Count(stage))
		}, "stage", stage.String())
	}
}
