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
	// lookupsAtOnce is how many names are looked up at once.
	lookupsAtOnce = 16

	// removeTime bounds the time for removing unfinished entries after the copy has ended.
	removeTime = 10 * time.Second

	// ownerAll are the permissions that the owner of a directory needs to fill it.
	ownerAll = 0o700
)

// A task holds the state that all parts of one [Copy] share.
type task struct {
	opts   Options
	ctx    context.Context // ends when the copy must stop
	limit  rate.Bucket
	report report

	// Names in the target refer to the tree "to". That is the job's tree, or the part of it below
	// prefix.
	to        *tree
	prefix    string
	whole     *tree       // the job's tree
	contained bool        // to was opened by Sub of the job's tree, so that no name leads out of it: see [store.Capabilities]
	target    fs.FileInfo // the directory that everything is copied to; nil if it does not exist
	landed    atomic.Bool // an entry was begun below the target

	// origin identifies the job's tree: see [Job]. If it is set, a server may copy files itself, so
	// opening a file should not fetch it. Therefore all files are opened with openDescribed.
	origin  string
	realTop string // the path of the target; "" if no source has the same origin
}

// newTask returns the task of a job. stop ends ctx.
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

// target returns the tree of the target, or an error if the tree does not support the options.
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

// outside returns the name in the job's tree for a name in to.
func (t *task) outside(name string) string { return path.Join(t.prefix, name) }

// wait waits until n more bytes may move.
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

// mode returns the permission bits for a copy: the bits of its source or, if they are unknown,
// usual.
func (t *task) mode(fi fs.FileInfo, usual fs.FileMode) fs.FileMode {
	perm := fi.Mode().Perm()
	if fi.Mode().Type() == fs.ModeIrregular && perm == 0 {
		perm = usual
	} else if t.opts.PreserveMode {
		return perm
	}
	return perm &^ t.opts.Umask.Perm()
}

// timesOf returns the access and modification times of a file. An unknown time is zero.
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

// who identifies the owner of uploads that can be resumed: see [store.Create]. Its value differs
// from the values of other users who upload to the same name.
var who = sync.OnceValue(func() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("haul copy by %d on %s", os.Getuid(), host)
})

// inParallel calls f with each number below n, up to lookupsAtOnce calls at a time. f looks up
// names.
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
