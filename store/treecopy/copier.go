package treecopy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/store"
)

const (
	// smallFile is up to how many bytes a file is a small one, whose round trips
	// take longer than its data.
	smallFile = 128 << 10

	// listsAtOnce is how many directories are listed at once.
	listsAtOnce = 16

	// sweepsAtOnce is how many directories are swept besides all else.
	sweepsAtOnce = 8

	// lookupsAtOnce is how many names are looked up at once.
	lookupsAtOnce = 16

	// maxQueue is how many files of either kind wait to be copied. Then the
	// listings wait.
	maxQueue = 1024

	// removeTime is how long it may take to remove what was begun.
	removeTime = 10 * time.Second

	// ownerAll is what the owner of a directory may do with it while it is filled.
	ownerAll = 0o700
)

// A copier is one Copy.
type copier struct {
	opts   Options
	ctx    context.Context // ends when no more is to be done
	limit  rate.Bucket
	report report

	// Where things go: names are those in to, which is what the job's own tree
	// has by the name prefix.
	to     target
	prefix string
	whole  target      // the job's own
	target fs.FileInfo // the directory that all goes below; nil if there is none

	// origin is that of the job's tree: see [Job]. If there is one, a server may copy files
	// itself, and to open one is not to have it sent: so all are opened as described.
	origin  string
	realTop string // the path of the target; "" if no source is of that origin

	landed atomic.Bool // something was begun below the target

	contained bool // to is a part of the job's tree that was opened: see [Subtree]

	features store.Features

	mirror *mirror // nil without Options.Delete

	smallLimit   smallLimit
	slots        chan struct{} // one for each directory that is listed besides others
	files        chan struct{} // one for each file on its way; nil if only the workers bound them
	dirs         atomic.Int64  // that were begun, up to Options.MaxDirs
	aside        atomic.Int64  // directories and links that are kept for later, up to maxAside
	there        atomic.Int64  // entries of all dir.there, up to maxAllThere
	foldsOnce    sync.Once
	folds        bool // see foldsCase
	walks        sync.WaitGroup
	sweeps       sync.WaitGroup
	sweepSlots   chan struct{}
	small, large chan *file
}

// newCopier returns a copier that stop ends.
func newCopier(ctx context.Context, stop context.CancelCauseFunc, j *Job) (*copier, error) {
	to, err := j.target()
	if err != nil {
		return nil, err
	}
	c := &copier{opts: j.Options, ctx: ctx, to: to, prefix: ".", whole: to, features: to.Features(), origin: j.Origin}
	c.report = report{hooks: &j.Hooks, fatal: j.Options.Fatal, ctx: ctx, stop: stop}
	c.setDefaults()
	if o := &c.opts; o.Delete != nil {
		if len(j.Sources) != 1 || !o.Recursive || o.NoClobber {
			return nil, fmt.Errorf("copy to %s: %w: deletions take one directory as the source, Recursive, and no NoClobber", printable(j.Target), fs.ErrInvalid)
		}
		if c.mirror, err = newMirror(c, *o.Delete); err != nil {
			return nil, fmt.Errorf("copy to %s: %w", printable(j.Target), err)
		}
	}
	return c, nil
}

func (c *copier) setDefaults() {
	o := &c.opts
	lists := listsAtOnce
	if o.Parallel > 0 {
		o.Parallel = min(o.Parallel, MaxParallel)
		c.files = make(chan struct{}, o.Parallel)
		lists = min(lists, o.Parallel)
	} else {
		o.Parallel = DefaultParallel
	}
	if o.Umask == 0 {
		o.Umask = DefaultUmask
	}
	if o.MaxDirs <= 0 {
		o.MaxDirs = DefaultMaxDirs
	}
	c.limit.Set(o.Limit)
	c.smallLimit.init(given(c.to), o.InPlace)
	c.slots = make(chan struct{}, lists-1) // the goroutine that finds directories lists one itself
	c.sweepSlots = make(chan struct{}, sweepsAtOnce)
	c.openQueues()
}

// openQueues opens the queues of files, for workers that are yet to be started.
func (c *copier) openQueues() {
	c.small, c.large = make(chan *file, maxQueue), make(chan *file, maxQueue)
	c.smallLimit.restart()
}

// A target is a [TargetTree] with all that is asked of one without ImpliedDirs.
type target interface {
	TargetTree
	editor
}

type editor interface {
	OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error)
	Mkdir(ctx context.Context, name string, perm fs.FileMode) error
	Remove(ctx context.Context, name string) error
	RemoveDir(ctx context.Context, name string) error
	Rename(ctx context.Context, from, to string, replace bool) error
	Symlink(ctx context.Context, target, name string) error
	Readlink(ctx context.Context, name string) (string, error)
	SetAttr(ctx context.Context, name string, a store.Attr, follow bool) error
}

// target returns the target, or why it cannot have what the options ask for.
func (j *Job) target() (target, error) {
	if j.To == nil {
		return nil, fmt.Errorf("copy to %s: %w: no tree", printable(j.Target), fs.ErrInvalid)
	}
	if t, ok := j.To.(target); ok {
		return t, nil
	}
	o := &j.Options
	if !j.To.Features().ImpliedDirs || o.InPlace || o.PreserveMode || o.fileTimes() || o.Links == KeepLinks {
		return nil, fmt.Errorf("copy to %s: %w: the target takes whole files only, without permissions and times, and no symbolic links", printable(j.Target), errors.ErrUnsupported)
	}
	return wholeFiles{j.To, noEditor{}}, nil
}

// wholeFiles is a target that takes whole files only.
type wholeFiles struct {
	TargetTree
	noEditor
}

// A noEditor is the editor of a target that has none: its methods fail by
// [errors.ErrUnsupported].
type noEditor struct{}

func (noEditor) OpenFile(context.Context, string, store.Access) (store.Handle, error) {
	return nil, errors.ErrUnsupported
}
func (noEditor) Mkdir(context.Context, string, fs.FileMode) error { return errors.ErrUnsupported }
func (noEditor) Remove(context.Context, string) error             { return errors.ErrUnsupported }
func (noEditor) RemoveDir(context.Context, string) error          { return errors.ErrUnsupported }
func (noEditor) Rename(context.Context, string, string, bool) error {
	return errors.ErrUnsupported
}
func (noEditor) Symlink(context.Context, string, string) error { return errors.ErrUnsupported }
func (noEditor) Readlink(context.Context, string) (string, error) {
	return "", errors.ErrUnsupported
}
func (noEditor) SetAttr(context.Context, string, store.Attr, bool) error {
	return errors.ErrUnsupported
}

// given returns a target as the job has it, with the optional methods that it has.
func given(t target) TargetTree {
	if w, ok := t.(wholeFiles); ok {
		return w.TargetTree
	}
	return t
}

// outside returns the name in the job's tree of what has a name in to.
func (c *copier) outside(name string) string { return path.Join(c.prefix, name) }

// wait waits until n more bytes may move.
func (c *copier) wait(ctx context.Context, n int) error {
	return rate.Sleep(ctx, c.limit.Take(time.Now(), n))
}

// A start is a source that exists.
type start struct {
	tree     SourceTree
	name     string
	as       string // its name below a directory
	origin   string
	info     fs.FileInfo
	contents bool // what is in it goes below the target, rather than itself
	shown    string
	index    int   // among the sources
	err      error // why it cannot be copied
}

// showAs returns what messages call what has a name in the tree, or "" if that is
// its name.
func (s *start) showAs(name string) string {
	if s == nil || s.shown == "" {
		return ""
	}
	if name == s.name {
		return s.shown
	}
	return path.Join(s.shown, s.below(name))
}

// below returns what comes behind the source in a name in its tree.
func (s *start) below(name string) string {
	if s.name == "." {
		return name
	}
	return strings.TrimPrefix(name, s.name+"/")
}

// display returns what messages call it.
func (s *start) display() string {
	if s.shown != "" {
		return s.shown
	}
	return s.name
}

func (s start) isDir() bool { return s.info.IsDir() }

// A file is a file, or a symbolic link, on its way.
type file struct {
	item   *Item
	source *start // where it comes from
	dir    *dir   // nil if it becomes the target itself
	tree   SourceTree
	from   string
	to     string
	info   fs.FileInfo // of the source
	listed bool        // that is how its directory lists it
	old    fs.FileInfo // what has the target's name; nil if nothing does
	opened fs.FileInfo // of the source, when it was opened; nil if it is remote

	cleared bool // what is in its way will be deleted, or is
	started bool // the hook Started was called
	created bool // it has its name, in place, and may have to be begun anew
}

// A dir is a directory on its way. It is finished when all that is in it is.
type dir struct {
	item   *Item
	parent *dir // nil at the top
	source *start
	tree   SourceTree
	from   string
	to     string
	info   fs.FileInfo // of the source; nil if its attributes are not to be copied
	origin dirIdentity

	depth    int
	followed int    // symbolic links above it
	made     bool   // its target is there
	fresh    bool   // it was made just now: nothing is in it but what this copy put there
	mark     string // says that the top is the source's copy, and not finished; "" for none

	cleared bool      // what is in its way will be deleted, or is
	lazy    bool      // it is made with the first file that is copied to it
	making  sync.Once // of a lazy one
	unmade  error     // why a lazy one could not be made
	held    bool      // it gets attributes last, when what is to be deleted is

	there map[string]fs.FileInfo // what its target had at first, by name; nil if that was not listed

	pending atomic.Int64 // what is in it and not done, and its listing
	links   []*file      // symbolic links to be made; until it is listed
	holds   atomic.Bool  // there are files in it, or further below
	filled  atomic.Bool  // one of them was copied
}

// hold notes that there are files in d.
func (d *dir) hold() {
	for d != nil && !d.holds.Swap(true) {
		d = d.parent
	}
}

// fill notes that a file in d was copied.
func (d *dir) fill() {
	for d != nil && !d.filled.Swap(true) {
		d = d.parent
	}
}

// A dirIdentity distinguishes a directory of a source from others, so that links
// which lead to a directory above themselves are found.
type dirIdentity struct {
	info fs.FileInfo // for store.SameFile; nil for none
	real string      // by a Resolver; "" if that is not known
}

func (c *copier) dirItem(s *start, from, to string, modified time.Time) *Item {
	return &Item{From: from, As: s.showAs(from), To: c.outside(to), Of: s.index, Type: fs.ModeDir, Time: modified}
}

func (c *copier) fileItem(f *file) *Item {
	return &Item{From: f.from, As: f.source.showAs(f.from), To: c.outside(f.to), Of: f.source.index, Type: f.info.Mode().Type() &^ fs.ModeIrregular, Size: max(f.info.Size(), 0), Time: f.info.ModTime()}
}

// dirMode returns the permission bits for the copy of a directory.
func (c *copier) dirMode(fi fs.FileInfo) fs.FileMode { return c.mode(fi, 0o777) }

// mode returns the permission bits for a copy: those of its source or, where they
// are not known, usual.
func (c *copier) mode(fi fs.FileInfo, usual fs.FileMode) fs.FileMode {
	perm := fi.Mode().Perm()
	if fi.Mode().Type() == fs.ModeIrregular && perm == 0 {
		perm = usual
	} else if c.opts.PreserveMode {
		return perm
	}
	return perm &^ c.opts.Umask.Perm()
}

// timesOf returns when a file was last read and written; zero if that is not
// known.
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

// who says whose uploads are resumed: see [store.Create]. Other users who send to
// the same place have other sources.
var who = sync.OnceValue(func() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("haul copy by %d on %s", os.Getuid(), host)
})

// inParallel calls f, which looks a name up, with each number below n, some at once.
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
