package fileops

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/remote"
	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// maxSums is how many files are hashed at once.
const maxSums = 8

// A SumConfig says which sums haul sum computes, and how it prints or checks them.
type SumConfig struct {
	Algorithm string // such as "sha256"; "" means that, and for Check any
	Recursive bool   // directories with all that is in them
	Read      bool   // compute each sum here, and do not ask the server for it
	Tag       bool   // print lines as BSD does
	Zero      bool   // end lines with a NUL, and print names as they are

	Quiet         bool // of Check: print no OK
	Status        bool // print nothing
	IgnoreMissing bool
	Strict        bool // a bad line is a failure
	Warn          bool // name each bad line

	// Say prints what is wrong as soon as Check finds it.
	Say func(error)
}

// check refuses what means nothing.
func (c *SumConfig) check() error {
	if _, ok := algorithmNamed(c.Algorithm); !ok && c.Algorithm != "" {
		var names []string
		for _, a := range sumAlgorithms {
			names = append(names, a.name)
		}
		return failure.Usage.Errorf("--algorithm %s: choose one of %v", console.Visible(c.Algorithm), names)
	}
	return nil
}

// A sumJob is a file to be hashed, or why it cannot be.
type sumJob struct {
	place sumPlace
	name  string      // there
	info  fs.FileInfo // nil if that is not known yet
	want  sumLine     // of Check
	bad   int         // of Check: the line that cannot be read
	err   error
}

// A summer is one run of haul sum.
type summer struct {
	SumConfig
	problems
	out  *bufio.Writer
	name func(string) string // how names are shown
}

func newSummer(cfg SumConfig, out io.Writer) *summer {
	return &summer{SumConfig: cfg, out: bufio.NewWriter(out), name: console.NameFormat(out)}
}

// flush ends the output.
func (s *summer) flush() error {
	if err := s.out.Flush(); err != nil {
		s.failed(failure.Local.Errorf("write the sums: %w", err))
	}
	return s.err()
}

// Sum prints the sums of files, as sha256sum does.
func Sum(ctx context.Context, servers *remote.Servers, at []remote.Location, cfg SumConfig, out io.Writer) error {
	if err := cfg.check(); err != nil {
		return err
	}
	s := newSummer(cfg, out)
	a, _ := algorithmNamed(cfg.Algorithm)
	if cfg.Algorithm == "" {
		a, _ = algorithmNamed("sha256")
	}
	end := "\n"
	if cfg.Zero {
		end = "\x00"
	}
	s.inOrder(ctx, s.find(ctx, servers, at), func(j sumJob) ([]byte, error) { return s.sum(ctx, j, a) }, func(j sumJob, sum []byte, err error) bool {
		s.failed(err)
		if err == nil {
			line := formatSum(a, sum, j.name, cfg.Tag, cfg.Zero)
			if !cfg.Zero {
				line = s.name(line)
			}
			_, err = s.out.WriteString(line + end)
			return err == nil
		}
		return ctx.Err() == nil && !remote.IsLost(err)
	})
	return s.flush()
}

// find returns all files that locations stand for.
func (s *summer) find(ctx context.Context, servers *remote.Servers, at []remote.Location) iter.Seq[sumJob] {
	return func(yield func(sumJob) bool) {
		w := new(walk)
		for _, l := range at {
			if l.Protocol == remote.Local {
				if !s.findLocal(l.Path, yield) {
					return
				}
				continue
			}
			c, list, errs := entries(ctx, servers, l, true)
			if !s.yieldAll(ctx, w, c, list, errs, -1, yield) {
				return
			}
		}
	}
}

// yieldAll yields entries, and with Recursive what is in those that are directories.
func (s *summer) yieldAll(ctx context.Context, w *walk, c remote.Server, list []entry, errs []error, depth int, yield func(sumJob) bool) bool {
	for _, err := range errs {
		if !yield(sumJob{err: err}) {
			return false
		}
	}
	for _, e := range list {
		switch {
		case depth >= 0 && (tempname.Is(e.shown) || isLink(e) || w.full()):
			// as get -r leaves them out
		case e.IsDir() && s.Recursive:
			below, errs := w.list(ctx, c, e.path, depth+1, true)
			if !s.yieldAll(ctx, w, c, below, errs, depth+1, yield) {
				return false
			}
		case !yield(sumJob{place: serverFiles{c}, name: e.path, info: e.FileInfo}):
			return false
		}
	}
	return true
}

// findLocal is yieldAll for a file of this machine.
func (s *summer) findLocal(name string, yield func(sumJob) bool) bool {
	if fi, err := os.Stat(name); err != nil || !fi.IsDir() || !s.Recursive {
		return yield(sumJob{place: localFiles{}, name: name})
	}
	more := true
	_ = filepath.WalkDir(name, func(name string, e fs.DirEntry, err error) error { // errors are yielded
		switch {
		case err != nil:
			more = yield(sumJob{err: failure.Local.Wrap(err)})
		case e.Type().IsRegular() && !tempname.Is(e.Name()):
			more = yield(sumJob{place: localFiles{}, name: name})
		}
		if !more {
			return fs.SkipAll
		}
		return nil
	})
	return more
}

// sum returns the sum of a file: the server's, if it has one of that algorithm, or what
// its bytes give.
func (s *summer) sum(ctx context.Context, j sumJob, a algorithm) ([]byte, error) {
	if j.err != nil {
		return nil, j.err
	}
	if j.info != nil && j.info.IsDir() {
		return nil, directory(j.name)
	}
	f, err := j.place.open(ctx, j.name, j.info)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	switch {
	case err != nil:
		return nil, failure.Remote.Wrap(err)
	case fi.IsDir():
		return nil, directory(j.name)
	case !s.Read && fi.Size() > 0:
		used, sum, err := treecopy.HashOf(ctx, f, fi.Size(), a.name)
		if err == nil && used == a.name {
			return sum, nil
		}
		if ctx.Err() != nil || remote.IsLost(err) {
			return nil, failure.Remote.Wrap(err)
		}
	}
	h := treecopy.NewHash(a.name)
	if err := j.place.read(ctx, f, h); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}

func directory(name string) error {
	return failure.Remote.Errorf("sum %s: %w; -r sums all that is in it", name, treecopy.ErrDirectory)
}

// A sumPlace is where files are that are hashed.
type sumPlace interface {
	// open opens a file, which fi describes unless that is nil.
	open(ctx context.Context, name string, fi fs.FileInfo) (store.File, error)

	// read writes all of it to w.
	read(ctx context.Context, f store.File, w io.Writer) error
}

// serverFiles are those of a server.
type serverFiles struct{ remote.Server }

func (p serverFiles) open(ctx context.Context, name string, fi fs.FileInfo) (f store.File, err error) {
	if l, ok := p.Server.(treecopy.ListedOpener); ok { // to open a file may have it sent, and a sum needs none of it
		if fi == nil {
			fi, err = p.Stat(ctx, name)
		}
		if err == nil && !fi.IsDir() {
			f, err = l.OpenListed(ctx, name, fi)
			return f, failure.Remote.Wrap(err)
		}
	}
	if err == nil {
		f, err = p.Open(ctx, name)
	}
	return f, failure.Remote.Wrap(err)
}

func (serverFiles) read(ctx context.Context, f store.File, w io.Writer) error {
	_, err := remote.Stream(ctx, f, w, "the sum")
	return err
}

// localFiles are those of this machine.
type localFiles struct{}

func (localFiles) open(_ context.Context, name string, _ fs.FileInfo) (store.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, failure.Local.Wrap(err)
	}
	return f, nil
}

func (localFiles) read(_ context.Context, f store.File, w io.Writer) error {
	_, err := io.Copy(w, f.(io.Reader))
	return failure.Local.Wrap(err)
}

// inOrder calls work for jobs, maxSums of them at once, and use for what comes of each, in
// the order of the jobs. It returns false if use does, or the context ends: then it does not
// wait for jobs and work that are under way, as a pipe may never have more to read.
func (s *summer) inOrder(ctx context.Context, jobs iter.Seq[sumJob], work func(sumJob) ([]byte, error), use func(sumJob, []byte, error) bool) bool {
	type task struct {
		sumJob
		sum  []byte
		err  error
		done chan struct{}
	}
	queue, over := make(chan *task, maxSums-1), make(chan struct{})
	defer close(over)
	go func() {
		defer close(queue)
		for j := range jobs {
			t := &task{sumJob: j, done: make(chan struct{})}
			select {
			case queue <- t:
			case <-over:
				return
			}
			go func() {
				defer close(t.done)
				t.sum, t.err = work(j)
			}()
		}
	}()
	for {
		select {
		case t, more := <-queue:
			if !more {
				return true
			}
			select {
			case <-t.done:
				if !use(t.sumJob, t.sum, t.err) {
					return false
				}
				continue
			case <-ctx.Done():
			}
		case <-ctx.Done():
		}
		s.failed(context.Cause(ctx))
		return false
	}
}

// isMissing reports whether a file is not there.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
