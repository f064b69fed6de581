package copying

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/events"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// A run is one execution of haul get, put, sync or cp over SFTP, HTTP or S3.
type run struct {
	*Config
	verb       Verb
	over       remote.Protocol
	fromServer bool // the sources are on servers
	servers    *remote.Servers
	local      localFiles

	job   treecopy.Job // the copy to make; set by the method plan
	names sourceNames  // names of the sources for messages; set by the method plan

	refused  []error                  // errors about sources that are not copied at all
	progress atomic.Pointer[progress] // shows the progress; nil until the copy starts
	saidWhy  sync.Map                 // keys: the reasons that the method fromStart has printed already
	// empty is the number of directories left out because the server does not support empty
	// directories.
	empty atomic.Int64
}

func newRun(cfg *Config, verb Verb, over remote.Protocol, fromServer bool) *run {
	r := &run{Config: cfg, verb: verb, over: over, fromServer: fromServer, local: localFiles{cfg, map[string]*os.Root{}}, names: sourceNames{verb: verb}}
	c := cfg.Remote
	c.Say, c.Quiet, c.Asking = r.say, cfg.Quiet, r.pause
	r.servers = remote.New(c)
	return r
}

// say prints a message, above redrawn lines if there are any.
func (r *run) say(text string) {
	p := r.progress.Load()
	switch {
	case r.Events != nil:
		r.Events.Note(text)
	case p != nil:
		p.Printf("haul: %s\n", text)
	default:
		fmt.Fprintln(r.Stderr, "haul:", text)
	}
}

// pause removes redrawn lines until a question is answered.
func (r *run) pause() (resume func()) {
	if p := r.progress.Load(); p != nil {
		return p.Pause()
	}
	return func() {}
}

// newProgress starts to show a copy.
func (r *run) newProgress(live bool, nameOf func(*treecopy.Item) string) *progress {
	p := newProgress(r.Config, live, nameOf)
	r.progress.Store(p)
	return p
}

// close closes the connections and the local directories.
func (r *run) close() {
	r.servers.Close()
	r.local.close()
}

// options returns the options of a copy.
func (r *run) options() treecopy.Options {
	o := r.Options
	o.Umask = store.Umask()
	o.FileTimes = o.FileTimes || o.Unchanged == treecopy.SizeAndTime // or the next copy would copy all files again
	// If there are several servers, an error of one of them must not stop the copies from the others.
	if r.servers.Len() == 1 {
		o.Fatal = isFatal
	}
	if r.fromServer && r.over != remote.SFTP {
		o.Replaced = remote.IsReplaced
	}
	return o
}

// isFatal reports whether an error makes the rest of the copy pointless, because all later files
// would fail too.
func isFatal(err error) bool {
	return errors.Is(err, store.ErrNoSpace) || remote.IsLost(err)
}

// copy runs the job, shows its progress, and prints a summary.
func (r *run) copy(ctx context.Context) error {
	if len(r.job.Sources) == 0 { // there is nothing to copy, because all sources were refused
		return r.explain(ctx, nil)
	}
	j := r.job
	j.Options = r.options()
	p := r.newProgress(true, r.names.of)
	var plan dryRunPlan
	j.Hooks = r.hooks(p, &plan)
	began := time.Now()
	result, err := treecopy.Copy(ctx, j)
	p.end()
	result.Failed += int64(len(r.refused))
	if !r.isSilent() {
		if r.DryRun {
			result.Bytes = plan.bytes
		}
		if worthSummary(result, err) {
			fmt.Fprintln(r.Stderr, r.summary(result, time.Since(began)))
		}
	}
	return r.explain(ctx, errors.Join(err, plan.print(r.Stdout)))
}

// worthSummary reports whether a summary adds information to an error. A summary adds nothing to an
// error about a missing source, or about a server that does not answer.
func worthSummary(s treecopy.Result, err error) bool {
	if remote.IsNoAnswer(err) {
		return s.Copied+s.Same+s.Bytes > 0
	}
	s.Failed = 0
	return err == nil || s != treecopy.Result{}
}

// hooks returns the hooks of a job, which show its progress or collect the plan of a dry run.
func (r *run) hooks(p *progress, plan *dryRunPlan) treecopy.Hooks {
	return treecopy.Hooks{
		Found: func(t treecopy.Totals) {
			p.setFound(t)
			if t.All {
				r.Events.Emit(&events.Found{Files: t.Files, Bytes: t.Bytes})
			}
		},
		Started:   func(i *treecopy.Item) { p.begin(i, r.names.targetAt(i.To)) },
		Progress:  p.progressed,
		FromStart: r.fromStart,
		Ended: func(i *treecopy.Item, o treecopy.Outcome) {
			took := p.ended(i)
			if errors.Is(o.Err, treecopy.ErrEmpty) {
				r.empty.Add(1)
			}
			switch {
			case r.Events != nil:
				r.emit(p, i, o, took)
			case r.DryRun && r.verb == Sync && o.What == treecopy.Same:
				// Unchanged files are not listed, because most files are unchanged; the summary counts them.
			case r.DryRun:
				plan.add(i, o, r.from(i, o), r.names.targetAt(i.To))
			case r.Verbose && !r.Quiet:
				p.verbose(o, r.from(i, o), r.names.targetAt(i.To)+r.way(i, o))
			}
		},
	}
}

// emit writes the event for the outcome of an entry.
func (r *run) emit(p *progress, i *treecopy.Item, o treecopy.Outcome, took time.Duration) {
	to := ""
	if i.To != "" {
		to = r.names.targetAt(i.To)
	}
	entry := p.entryOf(i, to)
	switch {
	case i.Extra: // the entry exists only in the target
		entry = events.NewEntry(to, "", i.Type)
	case o.What == treecopy.Moved:
		r.Events.Emit(events.NewRenamed(entry, r.names.targetAt(o.Was), r.DryRun))
		return
	}
	if o.What == treecopy.Failed {
		_ = r.Events.Failed(entry, r.failure(r.names.inWords(r.names.of(i), &treecopy.EntryError{From: i.From, To: i.To, Err: o.Err})))
		return // the method explain reports errors that concern no single entry
	}
	if e := outcomeEvent(entry, o, took, r.DryRun); e != nil {
		r.Events.Emit(e)
	}
}

// way returns a note about how cp copied a file: on the server, or through this machine.
func (r *run) way(i *treecopy.Item, o treecopy.Outcome) string {
	switch {
	case r.verb != Cp || o.What != treecopy.Copied || i.Type != 0 || o.Bytes == 0:
		return ""
	case o.Cloned:
		return " (on the server)"
	}
	return " (through this machine)"
}

// from returns the name that an entry was copied or renamed from, or "" if the entry was deleted.
func (r *run) from(i *treecopy.Item, o treecopy.Outcome) string {
	switch {
	case i.Extra:
		return ""
	case o.What == treecopy.Moved:
		return r.names.targetAt(o.Was)
	}
	return r.names.of(i)
}

// fromStart prints, once for each reason, that a file is copied from its start because --continue
// cannot resume it.
func (r *run) fromStart(i *treecopy.Item, why error) {
	if _, said := r.saidWhy.LoadOrStore(why.Error(), true); !said && !r.Quiet {
		r.say(fmt.Sprintf("note: %s is copied from its start: %v", console.Visible(r.names.of(i)), console.Visible(why.Error())))
	}
}

// summary returns a line with the counts of all outcomes.
func (r *run) summary(s treecopy.Result, took time.Duration) string {
	var parts []string
	if r.DryRun {
		parts = append(parts, fmt.Sprintf("would copy %s, %s", console.Plural(s.Copied, "file"), console.FormatBytes(s.Bytes)))
	} else {
		parts = append(parts, fmt.Sprintf("%s, %s in %v, %s/s", console.Plural(s.Copied, "file"), console.FormatBytes(s.Bytes),
			console.FormatDuration(took), console.FormatBytes(console.PerSecond(s.Bytes, took))))
	}
	for _, change := range []struct {
		n           int64
		done, would string
	}{{s.Moved, "renamed", "rename"}, {s.Deleted, "deleted", "delete"}} {
		switch {
		case change.n > 0 && r.DryRun:
			parts = append(parts, fmt.Sprintf("would %s %d", change.would, change.n))
		case change.n > 0:
			parts = append(parts, fmt.Sprintf("%d %s", change.n, change.done))
		}
	}
	if s.Resumed > 0 {
		parts = append(parts, console.FormatBytes(s.Resumed)+" were there before")
	}
	alone := "left alone (there already)"
	if r.Update && !r.NoClobber {
		alone = "left alone (newer than their source)"
	}
	for _, other := range []struct {
		n    int64
		what string
	}{{s.Same, "unchanged"}, {s.Existing, alone}, {s.Excluded, "excluded"}, {s.Skipped - r.empty.Load(), "skipped (symlinks, special files)"},
		{r.empty.Load(), fmt.Sprintf("left out (directories without files, which %v cannot make)", r.over)}, {s.Kept, "kept their permissions and times (directories that may not be changed)"},
		{s.Failed, "failed"}, {s.Undeleted, "not deleted, as something failed"}, {s.Left, "unfinished"}} {
		if other.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", other.n, other.what))
		}
	}
	return strings.Join(parts, "; ")
}

// An Error reports why a copy over SFTP, HTTP or S3 is incomplete.
type Error struct {
	Get bool // the sources are on a server, not on this machine
	err error
}

// Error implements error.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.err }

// failure turns an error into an [Error], and adds advice for the user.
func (r *run) failure(err error) error { return &Error{r.fromServer, advise(err)} }

// reword rewrites an error of treecopy with the names that the user typed. An error of an entry is
// marked as reported, because its event has been written already.
func (r *run) reword(err error) error {
	if _, ok := errors.AsType[*treecopy.EntryError](err); ok {
		return events.Reported(r.failure(r.names.reword(err)))
	}
	return r.failure(r.names.reword(err))
}

// refuse records that a local source is not copied at all.
func (r *run) refuse(s refusedSource) {
	err := r.failure(s.err)
	r.refused = append(r.refused, r.Events.Failed(events.NewEntry(s.name, "", s.mode), err))
}

// explain returns the error of the copy with advice, joined with the errors about refused sources.
func (r *run) explain(ctx context.Context, err error) error {
	errs := slices.Clone(r.refused)
	if err == nil {
		return errors.Join(errs...)
	}
	if incomplete, ok := errors.AsType[*treecopy.IncompleteError](err); ok {
		for _, e := range incomplete.Errors {
			errs = append(errs, r.reword(e))
		}
		if more := incomplete.Failed - int64(len(incomplete.Errors)); more > 0 {
			errs = append(errs, events.Reported(r.failure(fmt.Errorf("and %d more failed", more))))
		}
	} else {
		errs = append(errs, r.reword(err))
	}
	switch {
	case r.DryRun:
	case r.Continue && !r.fromServer && r.Recursive && r.over != remote.SFTP && (ctx.Err() != nil || remote.IsNoAnswer(err)):
		errs = append(errs, failure.Note("what has come is kept, and the same command resumes there; but if TARGET was made by it, name the source as LOCAL/., or it would go below that"))
	case r.Continue && (ctx.Err() != nil || remote.IsNoAnswer(err)):
		errs = append(errs, failure.Note("what has come is kept; the same command resumes there"))
	case ctx.Err() != nil && r.InPlace:
		errs = append(errs, failure.Note("files that were being written are not whole; a run with --continue resumes there"))
	case ctx.Err() != nil && r.verb == Cp:
		errs = append(errs, failure.Note("files that were not whole are gone"))
	case ctx.Err() != nil:
		errs = append(errs, failure.Note("files that were not whole are gone; with --continue they would have been kept"))
	}
	return errors.Join(errs...)
}

// advise adds advice to the error of one file.
func advise(err error) error {
	switch {
	case errors.Is(err, treecopy.ErrDirectory):
		return fmt.Errorf("%w (use -r)", err)
	case errors.Is(err, treecopy.ErrTooManyDeletions):
		return fmt.Errorf("sync: %w (--max-delete)", err)
	case errors.Is(err, treecopy.ErrEmptySource):
		return fmt.Errorf("sync: %w; --force deletes nevertheless", err)
	case errors.Is(err, store.ErrBusy):
		return fmt.Errorf("%w; wait for it, or leave out --continue", err)
	}
	return err
}
