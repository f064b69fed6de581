package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/tftp"
)

// lineEvery is how often a transfer is reported where there is no terminal.
const lineEvery = 5 * time.Second

// A progress shows how transfers go: bars on a terminal, else a line for each
// now and then, and a line at the end.
type progress struct {
	out   io.Writer
	quiet bool
	bars  *mpb.Progress // nil without a terminal
	mu    sync.Mutex    // guards out
}

func newProgress(out io.Writer, quiet, bars bool) *progress {
	p := &progress{out: out, quiet: quiet}
	if f, ok := out.(*os.File); ok && !quiet && bars && term.IsTerminal(int(f.Fd())) {
		p.bars = mpb.New(mpb.WithOutput(f), mpb.WithWidth(48))
	}
	return p
}

// end waits until all has been shown.
func (p *progress) end() {
	if p.bars != nil {
		p.bars.Wait()
	}
}

// A progressLine shows one transfer.
type progressLine struct {
	of    *progress
	label string
	began time.Time
	last  time.Time // when a line was printed
	bar   *mpb.Bar  // nil without a terminal
}

// begin shows a transfer that begins.
func (p *progress) begin(label string) *progressLine {
	l := &progressLine{of: p, label: label, began: time.Now(), last: time.Now()}
	if p.bars != nil {
		l.bar = p.bars.AddBar(0,
			mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(label+" ", decor.WCSyncSpaceR)),
			mpb.AppendDecorators(
				decor.Any(counters, decor.WCSyncSpace),
				decor.AverageSpeed(decor.SizeB1000(0), "% .1f", decor.WCSyncSpace),
			))
	}
	return l
}

// counters shows the bytes moved, and of how many if that is known.
func counters(s decor.Statistics) string {
	if s.Total <= 0 {
		return console.FormatBytes(s.Current)
	}
	return console.FormatBytes(s.Current) + " of " + console.FormatBytes(s.Total)
}

// update is a Client's Progress.
func (l *progressLine) update(bytes, size int64) {
	switch {
	case l.of.quiet:
	case l.bar != nil:
		if size > 0 {
			l.bar.SetTotal(size, false)
		}
		l.bar.SetCurrent(bytes)
	case time.Since(l.last) >= lineEvery:
		l.last = time.Now()
		if size > 0 {
			l.of.printf("%s: %s of %s (%d %%)\n", l.label, console.FormatBytes(bytes), console.FormatBytes(size), bytes*100/size)
		} else {
			l.of.printf("%s: %s\n", l.label, console.FormatBytes(bytes))
		}
	}
}

// end shows how it went. Errors are for main to print.
func (l *progressLine) end(res tftp.Result, err error) {
	if l.bar != nil {
		l.bar.Abort(true)
		l.bar.Wait()
	}
	if l.of.quiet || err != nil {
		return
	}
	l.of.printf("%s: %s in %v, %s/s, %d packets/s, %d resends\n", l.label, console.FormatBytes(res.Bytes), console.FormatDuration(res.Duration),
		console.FormatBytes(console.PerSecond(res.Bytes, res.Duration)), console.PerSecond(res.Packets(), res.Duration), res.Resent)
}

// endCopy shows how a copy of one file went over a protocol that resends
// nothing.
func (l *progressLine) endCopy(bytes int64, err error) {
	if l.bar != nil {
		l.bar.Abort(true)
		l.bar.Wait()
	}
	if l.of.quiet || err != nil {
		return
	}
	took := time.Since(l.began)
	l.of.printf("%s: %s in %v, %s/s\n", l.label, console.FormatBytes(bytes), console.FormatDuration(took), console.FormatBytes(console.PerSecond(bytes, took)))
}

func (p *progress) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bars != nil {
		if _, err := fmt.Fprintf(p.bars, format, args...); err == nil {
			return
		} // else the bars have ended
	}
	fmt.Fprintf(p.out, format, args...)
}
