package copying

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/events"
	"github.com/haul-project/haul/store/treecopy"
)

// lineAfter is how long the copy of a file must take before a line on the terminal shows the file.
// Most copies are complete earlier, and nobody could read their lines.
const lineAfter = 300 * time.Millisecond

// maxCurrent is the maximum number of active files that a progress event names.
const maxCurrent = 8

// A progress shows the progress of a copy. On a terminal it redraws lines. If the output is not a
// terminal, it prints a line from time to time. For programs it writes events.
type progress struct {
	tracker
	*console.Screen
	silent bool // do not show progress to people; events are written nevertheless
	log    *events.Log
	nameOf func(*treecopy.Item) string // returns the source name of an item, as a user could type it
	stop   chan struct{}
	done   chan struct{}
}

// newProgress starts to show the progress of a copy. Set live to false if other output to the
// terminal could mix with redrawn lines.
func newProgress(cfg *Config, live bool, nameOf func(*treecopy.Item) string) *progress {
	silent := cfg.isSilent() || cfg.DryRun
	p := &progress{
		tracker: tracker{active: map[*treecopy.Item]*underWay{}},
		Screen:  console.NewScreen(cfg.Stderr, live && !silent),
		silent:  silent, log: cfg.Events, nameOf: nameOf,
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	p.rate.Add(time.Now(), 0)
	go p.show()
	return p
}

// end stops the output, and removes redrawn lines.
func (p *progress) end() {
	close(p.stop)
	<-p.done
	p.Clear()
}

// show updates the output until end is called.
func (p *progress) show() {
	defer close(p.done)
	every := console.LineEvery
	switch {
	case p.log != nil:
		every = events.Every
	case p.Live():
		every = console.RedrawEvery
	case p.silent:
		<-p.stop
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case now := <-tick.C:
			p.update(now)
		}
	}
}

// update shows the state at the time `now`. Before the first file is found, it shows nothing.
func (p *progress) update(now time.Time) {
	if p.log != nil {
		if s := p.state(now, now); s.found.Files > 0 {
			p.log.Offer(p.event(s))
		}
		return
	}
	switch s := p.state(now, now.Add(-lineAfter)); {
	case !p.Live():
		p.Printf("%s\n", s)
	case s.found.Files > 0:
		p.Draw(s.lines)
	}
}

// event returns the progress event for a state.
func (p *progress) event(s copyState) *events.Progress {
	e := &events.Progress{
		Files: s.files, Bytes: s.moved, TotalFiles: s.found.Files, TotalBytes: s.found.Bytes, Final: s.found.All,
		Rate: s.rate, Active: len(s.active), Current: []events.Current{},
	}
	if left := s.left(); left > 0 {
		seconds := events.Seconds(left)
		e.Remaining = &seconds
	}
	for _, f := range s.active[:min(len(s.active), maxCurrent)] {
		e.Current = append(e.Current, events.NewCurrent(p.nameOf(f.item), f.moved, f.size))
	}
	return e
}

// verbose prints what happened to an entry.
func (p *progress) verbose(o treecopy.Outcome, from, to string) {
	switch o.What {
	case treecopy.Copied, treecopy.Made, treecopy.Moved:
		p.Printf("%v %s -> %s\n", o.What, console.Visible(from), console.Visible(to))
	case treecopy.Deleted:
		p.Printf("deleted %s\n", console.Visible(to))
	case treecopy.Existing:
		p.Printf("left alone %s\n", console.Visible(to))
	case treecopy.Same:
		p.Printf("unchanged %s\n", console.Visible(from))
	case treecopy.Skipped:
		p.Printf("skipped %s: %s\n", console.Visible(from), console.Visible(o.Err.Error()))
	}
}

// entryOf describes an item of a copy for events.
func (p *progress) entryOf(i *treecopy.Item, to string) events.Entry {
	e := events.NewEntry(p.nameOf(i), to, i.Type)
	if i.Type == 0 {
		e = e.Sized(i.Size)
	}
	return e
}

// shownName returns the name by which messages call a single file that is not part of a tree.
func shownName(i *treecopy.Item) string { return i.As }

// begin records that the copy of a file begins.
func (p *progress) begin(i *treecopy.Item, to string) {
	p.started(i)
	if p.log != nil {
		p.log.Emit(&events.File{Entry: p.entryOf(i, to)})
	}
}

// A singleResult is the result of copying a single file that is not part of a tree.
type singleResult struct {
	bytes           int64
	took            time.Duration // how long the copy took; 0 means the time since the call of begin
	packets, resent int64         // for TFTP: number of packets, and of those that were sent again
	err             error
}

// complete reports the result of copying a single file that is not part of a tree. It returns r.err
// for the caller to print.
func (p *progress) complete(ctx context.Context, i *treecopy.Item, to string, r singleResult) error {
	took := cmp.Or(r.took, p.ended(i))
	if p.log != nil {
		e := p.entryOf(i, to)
		switch {
		case r.err != nil && ctx.Err() != nil:
			p.log.Emit(&events.Unfinished{Entry: e, Bytes: r.bytes})
		case r.err != nil:
			return p.log.Failed(e, r.err)
		default:
			p.log.Emit(&events.Copied{Entry: e.Sized(r.bytes), Bytes: r.bytes, Seconds: events.Seconds(took), Packets: r.packets, Resent: r.resent})
		}
	}
	if p.silent || r.err != nil {
		return r.err
	}
	more := ""
	if r.packets > 0 {
		more = fmt.Sprintf(", %d packets/s, %d resends", console.PerSecond(r.packets, took), r.resent)
	}
	p.Printf("%s: %s in %v, %s/s%s\n", console.Visible(path.Base(i.From)), console.FormatBytes(r.bytes), console.FormatDuration(took), console.FormatBytes(console.PerSecond(r.bytes, took)), more)
	return nil
}

// outcomeEvent returns the event for the outcome of an entry. It returns nil if the outcome has no
// event, or if another function reports the outcome in more detail.
func outcomeEvent(e events.Entry, o treecopy.Outcome, took time.Duration, dryRun bool) events.Event {
	switch o.What {
	case treecopy.Copied:
		return &events.Copied{Entry: e, Bytes: o.Bytes, Resumed: o.Resumed, Verified: o.Verified, Seconds: events.Seconds(took), DryRun: dryRun}
	case treecopy.Made:
		return &events.Made{Entry: e, DryRun: dryRun}
	case treecopy.Same:
		return &events.Unchanged{Entry: e, Verified: o.Verified}
	case treecopy.Skipped, treecopy.Existing:
		return &events.Skipped{Entry: e, Reason: console.Visible(o.Err.Error())}
	case treecopy.Deleted:
		return &events.Removed{Entry: e, DryRun: dryRun}
	case treecopy.Unfinished:
		return &events.Unfinished{Entry: e, Bytes: o.Bytes}
	}
	return nil
}
