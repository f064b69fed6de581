package console

import (
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// LineEvery is how often a transfer is reported where there is no terminal.
const LineEvery = 5 * time.Second

// A Progress shows how transfers advance: by bars on a terminal, otherwise by a line for
// each every LineEvery; and by a line at the end of each.
type Progress struct {
	out   io.Writer
	quiet bool
	bars  *mpb.Progress // nil without a terminal
	mu    sync.Mutex    // guards out
}

// NewProgress shows transfers on out: nothing if quiet, and no bars unless asked for.
func NewProgress(out io.Writer, quiet, bars bool) *Progress {
	p := &Progress{out: out, quiet: quiet}
	if f, ok := out.(*os.File); ok && !quiet && bars && term.IsTerminal(int(f.Fd())) {
		p.bars = mpb.New(mpb.WithOutput(f), mpb.WithWidth(48))
	}
	return p
}

// Wait waits until everything has been drawn.
func (p *Progress) Wait() {
	if p.bars != nil {
		p.bars.Wait()
	}
}

// Bars returns the bars, or nil without a terminal.
func (p *Progress) Bars() *mpb.Progress { return p.bars }

// A ProgressLine shows one transfer.
type ProgressLine struct {
	of    *Progress
	label string
	began time.Time
	last  time.Time // when a line was printed
	bar   *mpb.Bar  // nil without a terminal
}

// Begin shows a transfer that begins.
func (p *Progress) Begin(label string) *ProgressLine {
	l := &ProgressLine{of: p, label: label, began: time.Now(), last: time.Now()}
	if p.bars != nil {
		l.bar = p.bars.AddBar(0,
			mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(label+" ", decor.WCSyncSpaceR)),
			mpb.AppendDecorators(
				decor.Any(Counters, decor.WCSyncSpace),
				decor.AverageSpeed(decor.SizeB1000(0), "% .1f", decor.WCSyncSpace),
			))
	}
	return l
}

// Counters writes the bytes moved, and of how many if that is known.
func Counters(s decor.Statistics) string {
	if s.Total <= 0 {
		return FormatBytes(s.Current)
	}
	return FormatBytes(s.Current) + " of " + FormatBytes(s.Total)
}

// Update shows how many bytes have moved, and of how many; size is 0 if that is not
// known.
func (l *ProgressLine) Update(bytes, size int64) {
	switch {
	case l.of.quiet:
	case l.bar != nil:
		if size > 0 {
			l.bar.SetTotal(size, false)
		}
		l.bar.SetCurrent(bytes)
	case time.Since(l.last) >= LineEvery:
		l.last = time.Now()
		if size > 0 {
			l.of.Printf("%s: %s of %s (%d %%)\n", l.label, FormatBytes(bytes), FormatBytes(size), bytes*100/size)
		} else {
			l.of.Printf("%s: %s\n", l.label, FormatBytes(bytes))
		}
	}
}

// End shows the result of a transfer that took so long since begin. Errors are for the
// caller to print.
func (l *ProgressLine) End(bytes int64, err error) { l.EndAfter(bytes, time.Since(l.began), "", err) }

// EndAfter shows the result of a transfer that took a time of its own. more is added to
// the line.
func (l *ProgressLine) EndAfter(bytes int64, took time.Duration, more string, err error) {
	if l.bar != nil {
		l.bar.Abort(true)
		l.bar.Wait()
	}
	if l.of.quiet || err != nil {
		return
	}
	l.of.Printf("%s: %s in %v, %s/s%s\n", l.label, FormatBytes(bytes), FormatDuration(took), FormatBytes(PerSecond(bytes, took)), more)
}

// Printf prints lines above the bars.
func (p *Progress) Printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bars != nil {
		if _, err := fmt.Fprintf(p.bars, format, args...); err == nil {
			return
		} // else the bars have ended
	}
	fmt.Fprintf(p.out, format, args...)
}

// minLabel and maxLabel bound the part of a name that a bar shows, in columns.
const minLabel, maxLabel = 8, 30

// BarLabel shortens a name to so many columns, for a bar; minLabel is the least. A long
// name loses its middle, because files of a directory often begin alike.
func BarLabel(name string, columns int) string {
	label := Visible(path.Base(name))
	columns = min(max(columns, minLabel), maxLabel)
	if runewidth.StringWidth(label) <= columns {
		return label
	}
	half := columns / 2
	return runewidth.Truncate(label, columns-half, "…") + strings.TrimLeft(runewidth.TruncateLeft(label, runewidth.StringWidth(label)-half, ""), " ") // half a wide character is a space
}

const (
	// RedrawEvery is the time between two drawings of bars.
	RedrawEvery = 100 * time.Millisecond

	// rateOver is the time over which the rate is taken.
	rateOver = 5 * time.Second
)

// A RateMeter measures the rate of the last few seconds.
type RateMeter struct {
	times []time.Time
	bytes []int64
}

// Add records how many bytes have moved by now.
func (r *RateMeter) Add(now time.Time, bytes int64) {
	if n := len(r.times); n > 0 && now.Sub(r.times[n-1]) < RedrawEvery {
		return // so that there are at most rateOver / redraw entries
	}
	r.times, r.bytes = append(r.times, now), append(r.bytes, bytes)
	for len(r.times) > 2 && now.Sub(r.times[1]) >= rateOver {
		r.times, r.bytes = r.times[1:], r.bytes[1:]
	}
}

// PerSecond returns the rate in bytes a second.
func (r *RateMeter) PerSecond() int64 {
	n := len(r.times)
	if n < 2 {
		return 0
	}
	return max(PerSecond(r.bytes[n-1]-r.bytes[0], r.times[n-1].Sub(r.times[0])), 0)
}
