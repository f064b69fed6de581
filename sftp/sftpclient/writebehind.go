package sftpclient

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/sftp/internal/mux"
)

const (
	// maxRuns is how many ranges of a file, apart from each other, may be
	// written behind at a time.
	maxRuns = 64

	// maxCopy is how many bytes are copied at once under the lock of the mux.
	maxCopy = 32 << 10

	// sureSegments is how many segments a file may have whatever others hold.
	sureSegments = 2
)

// A writeBehind is what was written to a file and is not confirmed.
type writeBehind struct {
	*openedFile

	dirty    atomic.Bool   // there is something that is not confirmed
	runs     []*run        // File.mu: oldest first
	notified chan struct{} // of all runs
	wrote    bool          // File.mu: the server was asked to write
	err      error         // File.mu: what went wrong first
	whole    int64         // File.mu: up to here nothing is missing, of what has failed

	// mux.mu: how many there are, and how many bytes their buffers have.
	segments int
	held     int64
}

// noteFailure notes that writing has failed, and returns the first error.
// The caller holds File.mu.
func (b *writeBehind) noteFailure(err error) error {
	if b.err == nil {
		b.err = err
	}
	return b.err
}

// runAt returns the run that ends at off, or a new one. It waits for runs that
// overlap. The caller holds File.mu.
func (b *writeBehind) runAt(off, n int64) (*run, error) {
	m := b.c.mux
	m.Lock()
	overlaps, kept := false, b.runs[:0]
	var found *run
	for _, r := range b.runs {
		switch {
		case r.end == off && !r.whole:
			found = r
		case r.idle():
			r.t.Finish()
			continue
		case r.start < off+n && off < r.end:
			overlaps = true
		}
		kept = append(kept, r)
	}
	clear(b.runs[len(kept):])
	b.runs = kept
	m.Unlock()
	if found != nil && !overlaps {
		return found, nil
	}
	if overlaps || len(b.runs) == maxRuns {
		if err := b.await(b.life); err != nil {
			return nil, err
		}
	}
	if b.notified == nil {
		b.notified = make(chan struct{}, 1)
	}
	r := &run{b: b, start: off, end: off}
	r.t = &mux.Transfer{File: b.remote, Source: r, Notified: b.notified}
	m.Lock()
	defer m.Unlock()
	m.Begin(r.t, b.fillConfig(off, -1))
	r.t.Plan.Limit(off)
	b.runs = append(b.runs, r)
	b.dirty.Store(true)
	return r, nil
}

// awaitRuns waits until all runs are over. The caller holds File.mu.
func (b *writeBehind) awaitRuns(ctx context.Context) error {
	m := b.c.mux
	m.Lock()
	defer m.Unlock()
	b.endRuns()
	for len(b.runs) > 0 {
		r := b.runs[0]
		for !r.t.Over() {
			if err := r.t.Wait(ctx, b.life, time.Time{}); err != nil {
				// The result of the rest is not known. Close handles it.
				for _, r := range b.runs {
					r.t.Halt(err)
				}
				return b.noteFailure(b.failed("write", r.t.Plan.Contiguous(), err, true))
			}
		}
		b.forgetRun()
	}
	b.dirty.Store(false)
	return b.err
}

// endRuns asks for all that is not sent yet: nothing is added to the runs any more. The
// caller holds File.mu and mux.mu.
func (b *writeBehind) endRuns() {
	now := time.Now()
	for _, r := range b.runs {
		r.t.Plan.EndAt(r.end)
		r.t.Ask(now)
	}
	b.c.mux.GrantRoom(now)
}

// sendRuns waits until all is sent. It reports false if that has failed: then
// awaitRuns returns the reason. The caller holds File.mu and mux.mu.
func (b *writeBehind) sendRuns(ctx context.Context) bool {
	b.endRuns()
	for {
		unsent := slices.IndexFunc(b.runs, func(r *run) bool { return r.failed() || !r.t.Plan.AllAsked() })
		if unsent < 0 {
			return true
		}
		if r := b.runs[unsent]; r.failed() || r.t.Wait(ctx, b.life, time.Time{}) != nil {
			return false
		}
	}
}

// forgetRun forgets the first run, which is over. The caller holds File.mu and
// mux.mu.
func (b *writeBehind) forgetRun() {
	r := b.runs[0]
	if r.failed() {
		b.whole = min(b.whole, r.t.Plan.Contiguous())
		_ = b.noteFailure(r.failure())
	}
	r.t.Finish()
	r.drop()
	b.runs = append(b.runs[:0], b.runs[1:]...)
}

// finish ends writing when the file is closed: what is not confirmed is given
// up. If anything has failed, the file is cut, if that is wanted. The caller holds
// mu.
func (b *writeBehind) finish(ctx context.Context, cut bool) error {
	m := b.c.mux
	m.Lock()
	for len(b.runs) > 0 {
		r := b.runs[0]
		if !r.idle() {
			r.t.Halt(errGivenUp)
		}
		for err := error(nil); !r.t.Over() && r.t.Plan.Outstanding() > 0 && err == nil; {
			err = r.t.Wait(ctx, ctx, time.Time{})
		}
		b.forgetRun()
	}
	m.Unlock()
	if !cut || b.err == nil || b.whole == math.MaxInt64 {
		return nil
	}
	return b.cut(ctx, b.whole)
}

// errGivenUp says that a file was closed before the server had confirmed what
// was written to it.
var errGivenUp = fmt.Errorf("closed before it was written")

// await waits until the server has confirmed what was written, and returns what went
// wrong with it. The caller holds File.mu.
func (b *writeBehind) await(ctx context.Context) error {
	if !b.dirty.Load() || b.err != nil {
		return b.err
	}
	return b.explained(b.awaitRuns(ctx))
}

// explained is explain for what writing the file has failed of. The caller holds
// mu.
func (b *writeBehind) explained(err error) error {
	if err == nil {
		return nil
	}
	b.err = b.c.explain(b.life, b.remote.Path, err)
	return b.err
}
