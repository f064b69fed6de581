package copying

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/store/treecopy"
)

const (
	// maxBars is how many files have a bar of their own at a time.
	maxBars = 8

	// barFrom is from how many bytes on a file gets one, and then only if it is one of
	// several.
	barFrom = 4 << 20

	// barWidth is how many columns the bar itself has.
	barWidth = 20

	// countersWidth is how many columns a bar takes besides its name and itself.
	countersWidth = 28

	// barAfter is how long a file is under way before it gets one: most are
	// done by then, and nobody could read theirs.
	barAfter = 300 * time.Millisecond
)

// A copyProgress shows how a copy of many files goes: on a terminal by a bar for each
// of the files that take long, and one for all; else by a line now and then. The hooks
// of a treecopy.Job keep it up to date.
type copyProgress struct {
	*console.Progress
	began time.Time
	stop  chan struct{}
	done  sync.WaitGroup

	mu     sync.Mutex
	found  treecopy.Totals              // mu
	moved  int64                        // mu: bytes of files, those that were there before included
	came   int64                        // mu: bytes that were moved now
	files  int64                        // mu: that are done
	active map[*treecopy.Item]*underWay // mu
	rate   console.RateMeter            // mu
}

// An underWay is a file that is being copied.
type underWay struct {
	since time.Time
	moved int64
}

// newCopyProgress begins to show a copy on out.
func newCopyProgress(out io.Writer, quiet bool) *copyProgress {
	p := &copyProgress{
		Progress: console.NewProgress(out, quiet, true),
		began:    time.Now(), stop: make(chan struct{}), active: map[*treecopy.Item]*underWay{},
	}
	p.rate.Add(p.began, 0)
	if !quiet {
		p.done.Go(p.show)
	}
	return p
}

// hooks returns the hooks of a treecopy.Job that update it.
func (p *copyProgress) hooks() treecopy.Hooks {
	return treecopy.Hooks{
		Found: func(t treecopy.Totals) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.found = t
		},
		Started: func(i *treecopy.Item) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.active[i] = &underWay{since: time.Now()}
		},
		Progress: func(i *treecopy.Item, n int64) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.moved += n
			if a := p.active[i]; a != nil {
				a.moved += n
			}
		},
		Ended: func(i *treecopy.Item, o treecopy.Outcome) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if i.Type == 0 {
				p.files++
			}
			p.came += o.Bytes
			if a := p.active[i]; a != nil {
				p.moved += max(i.Size-a.moved, 0) // what was skipped, or failed, is not left to do
			} else if i.Type == 0 {
				p.moved += i.Size
			}
			delete(p.active, i)
		},
	}
}

// verbose prints what became of an entry.
func (p *copyProgress) verbose(o treecopy.Outcome, from, to string) {
	switch o.What {
	case treecopy.Copied, treecopy.Made:
		p.Printf("%v %s -> %s\n", o.What, console.Visible(from), console.Visible(to))
	case treecopy.Same:
		p.Printf("unchanged %s\n", console.Visible(from))
	case treecopy.Skipped:
		p.Printf("skipped %s: %s\n", console.Visible(from), console.Visible(o.Err.Error()))
	}
}

// end stops showing, and takes the bars away.
func (p *copyProgress) end() {
	close(p.stop)
	p.done.Wait()
	p.Progress.Wait()
}

// show keeps what is shown up to date.
func (p *copyProgress) show() {
	tick := time.NewTicker(console.RedrawEvery)
	defer tick.Stop()
	var bars copyBars
	last := p.began
	for {
		select {
		case <-p.stop:
			bars.end()
			return
		case now := <-tick.C:
			if p.Bars() != nil {
				if p.hasFound() {
					p.draw(now, &bars)
				}
			} else if now.Sub(last) >= console.LineEvery {
				last = now
				p.Printf("%s\n", p.line(now))
			}
		}
	}
}

// hasFound reports whether there is something to show. Before the first file is
// found a server may have a password asked for, which bars would hide.
func (p *copyProgress) hasFound() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.found.Files > 0
}

// A copyState is how far a copy is.
type copyState struct {
	found treecopy.Totals
	moved int64
	files int64
	rate  int64 // bytes a second
}

// state returns how far the copy is. The caller holds mu.
func (p *copyProgress) state(now time.Time) copyState {
	p.rate.Add(now, p.moved)
	return copyState{p.found, p.moved, p.files, p.rate.PerSecond()}
}

// String says it in a line.
func (s copyState) String() string {
	text := ""
	if s.found.All && s.found.Bytes > 0 {
		text = fmt.Sprintf("%d %%, ", int(min(float64(s.moved)/float64(s.found.Bytes)*100, 100)))
	}
	text += fmt.Sprintf("%s of %s", console.FormatBytes(s.moved), console.FormatBytes(max(s.found.Bytes, s.moved)))
	if !s.found.All {
		text += " or more"
	}
	if s.found.Files > 1 || !s.found.All {
		text += fmt.Sprintf(", %d of %d files", s.files, max(s.found.Files, s.files))
	}
	text += fmt.Sprintf(", %s/s", console.FormatBytes(s.rate))
	if left := s.left(); left > 0 {
		text += fmt.Sprintf(", %v left", left)
	}
	return text
}

// left estimates how long the rest takes, in whole seconds; 0 if it cannot.
func (s copyState) left() time.Duration {
	rest := s.found.Bytes - s.moved
	if !s.found.All || s.rate <= 0 || rest <= 0 {
		return 0
	}
	seconds := float64(rest) / float64(s.rate)
	const most = 1000 * time.Hour // more would not be believed
	if seconds > most.Seconds() {
		return 0
	}
	return time.Duration(seconds+1) * time.Second
}

// line says how far the copy is, where there is no terminal.
func (p *copyProgress) line(now time.Time) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state(now).String()
}

// A copyBars are the bars on a terminal.
type copyBars struct {
	total *mpb.Bar
	state copyState // of the last drawing
	mu    sync.Mutex
	files map[*treecopy.Item]*mpb.Bar
}

// draw brings the bars up to date.
func (p *copyProgress) draw(now time.Time, b *copyBars) {
	p.mu.Lock()
	state := p.state(now)
	type shown struct {
		item *treecopy.Item
		underWay
	}
	var list []shown
	for i, a := range p.active {
		if now.Sub(a.since) >= barAfter && i.Size >= barFrom && state.found.Files > 1 {
			list = append(list, shown{i, *a})
		}
	}
	p.mu.Unlock()
	slices.SortFunc(list, func(x, y shown) int { return cmp.Or(x.since.Compare(y.since), cmp.Compare(x.item.From, y.item.From)) })
	list = list[:min(len(list), maxBars)]

	b.mu.Lock()
	b.state = state
	b.mu.Unlock()
	if b.total == nil {
		b.files = map[*treecopy.Item]*mpb.Bar{}
		b.total = p.Bars().New(0, mpb.NopStyle(), mpb.BarPriority(1<<30), mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Any(func(decor.Statistics) string {
				b.mu.Lock()
				defer b.mu.Unlock()
				return b.state.String()
			})))
	}
	setBar(b.total, state.moved, state.found.Bytes)
	here := map[*treecopy.Item]bool{}
	for _, s := range list {
		here[s.item] = true
		bar := b.files[s.item]
		if bar == nil {
			bar = p.Bars().AddBar(0, mpb.BarRemoveOnComplete(),
				mpb.BarWidth(barWidth),
				mpb.PrependDecorators(decor.Any(func(d decor.Statistics) string {
					return console.BarLabel(s.item.From, d.AvailableWidth-countersWidth) + " "
				}, decor.WCSyncSpaceR)),
				mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.Any(func(s decor.Statistics) string { return " " + console.Counters(s) })))
			b.files[s.item] = bar
		}
		setBar(bar, s.moved, s.item.Size)
	}
	for item, bar := range b.files {
		if !here[item] {
			bar.Abort(true)
			delete(b.files, item)
		}
	}
}

// setBar moves a bar. It never completes: what is done is taken away.
func setBar(bar *mpb.Bar, current, total int64) {
	bar.SetTotal(max(total, current), false)
	bar.SetCurrent(max(current, 0))
}

// end takes all bars away.
func (b *copyBars) end() {
	for _, bar := range b.files {
		bar.Abort(true)
	}
	if b.total != nil {
		b.total.Abort(true)
	}
}
