package treecopy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/store"
)

const (
	// lookupsAtOnce is the largest number of names that are looked up at the same time.
	lookupsAtOnce = 16

	// removeTime limits the time in which unfinished entries are removed after the copy has ended.
	removeTime = 10 * time.Second

	// ownerAll holds the permissions that the owner of a directory needs to put files into it.
	ownerAll = 0o700
)

// A task holds the state that all parts of a [Copy] share.
type task struct {
	opts   Options
	ctx    context.Context // cancelled when the copy must stop
	limit  rate.Bucket
	report report

	// Names in the target are names in the tree `to`. That is the tree of the job, or the part of
	// it below prefix.
	to     *tree
	prefix string
	whole  *tree // the job's tree
	// contained says that `to` was opened by Sub of the job's tree, so that no name leads out of
	// it: see [store.Capabilities].
	contained bool
	target    fs.FileInfo // directory that everything is copied to; nil if it does not exist
	// landed is true once a file, directory or link was created below the target; files may still
	// be incomplete.
	landed atomic.Bool

	// origin identifies the job's tree: see [Job]. If it is set, the server may be able to copy
	// files by itself. A file that was named as a source is then opened with openDescribed, too,
	// which need not request its data.
	origin  string
	realTop string // real path of the target; "" if no source has the same origin
}

// newTask returns the task for a job. The function stop cancels ctx.
func newTask(ctx context.Context, stop context.CancelCauseFunc, j *Job) (*task, error) {
	to, err := j.target()
	if err != nil {
		return nil, err
	}
	t := &task{opts: j.Options, ctx: ctx, to: to, prefix: ".", whole: to, origin: j.Origin}
	t.report = report{hooks: &j.Hooks, fatal: j.Options.Fatal, ctx: ctx, stop: stop}
	if t.opts.Umask == 0 {
		t.opts.Umask = 0o022
	}
	if t.opts.MaxDirs <= 0 {
		t.opts.MaxDirs = DefaultMaxDirs
	}
	t.limit.Set(t.opts.Limit)
	return t, nil
}

// target returns the tree of the target. It returns an error if the tree does not support the
// options.
func (j *Job) target() (*tree, error) {
	if j.To == nil {
		return nil, fmt.Errorf("copy to %s: %w: no tree", printable(j.Target), fs.ErrInvalid)
	}
	t, o := newTree(j.To), &j.Options
	if t.can.WholeFiles && (o.InPlace || o.PreserveMode || o.fileTimes() || o.Links == KeepLinks) {
		return nil, fmt.Errorf("copy to %s: %w: the target takes whole files only, without permissions and times, and no symbolic links", printable(j.Target), errors.ErrUnsupported)
	}
	return t, nil
}

// outside converts a name in `to` to a name in the tree of the job.
func (t *task) outside(name string) string { return path.Join(t.prefix, name) }

// wait waits until the rate limit allows n more bytes.
func (t *task) wait(ctx context.Context, n int) error {
	return rate.Sleep(ctx, t.limit.Take(time.Now(), n))
}

func (t *task) dirItem(s *start, from, to string, modified time.Time) *Item {
	return &Item{From: from, As: s.showAs(from), To: t.outside(to), Of: s.index, Type: fs.ModeDir, Time: modified}
}

func (t *task) fileItem(f *file) *Item {
	return &Item{From: f.from, As: f.source.showAs(f.from), To: t.outside(f.to), Of: f.source.index, Type: f.info.Mode().Type() &^ fs.ModeIrregular, Size: max(f.info.Size(), 0), Time: f.info.ModTime()}
}

// dirMode returns the permission bits for the copy of a directory.
func (t *task) dirMode(fi fs.FileInfo) fs.FileMode { return t.mode(fi, 0o777) }

// mode returns the permission bits for the copy of a file or directory: the bits of the source, or
// `usual` if the bits of the source are unknown. Options.Umask is applied, unless PreserveMode is
// set.
func (t *task) mode(fi fs.FileInfo, usual fs.FileMode) fs.FileMode {
	perm := fi.Mode().Perm()
	if fi.Mode().Type() == fs.ModeIrregular && perm == 0 {
		perm = usual
	} else if t.opts.PreserveMode {
		return perm
	}
	return perm &^ t.opts.Umask.Perm()
}

// timesOf returns the access time and the modification time of a file. A time that is not known is
// zero.
func timesOf(fi fs.FileInfo) (accessed, modified time.Time) {
	modified = fi.ModTime()
	if modified.IsZero() {
		return modified, modified
	}
	accessed = modified
	if d, ok := store.DetailsOf(fi); ok && !d.AccessTime.IsZero() {
		accessed = d.AccessTime
	}
	return accessed, modified
}

// who returns the text for the field Resume of [store.Create]. It is different for each user and
// machine, so a copy does not resume uploads that others began to the same name.
var who = sync.OnceValue(func() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("haul copy by %d on %s", os.Getuid(), host)
})

// inParallel calls f, which looks up a name, with each number from 0 to n-1. Up to lookupsAtOnce
// calls run at the same time.
func inParallel(n int, f func(i int)) {
	if n == 1 {
		f(0)
		return
	}
	var wait sync.WaitGroup
	next := make(chan int)
	for range min(lookupsAtOnce, n) {
		wait.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
}
