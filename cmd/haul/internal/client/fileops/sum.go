package fileops

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// maxSums is how many files are hashed at the same time.
const maxSums = 8

// A SumConfig says which sums haul sum computes, and how it prints or checks them.
type SumConfig struct {
	// Algorithm is the name of the algorithm, such as "sha256". "" means sha256 or, for CheckSums,
	// the algorithm of each line.
	Algorithm string
	Recursive bool // hash directories with everything in them
	Read      bool // compute each sum here instead of asking the server
	Tag       bool // print lines in the BSD format
	Zero      bool // end lines with a NUL, and do not escape names

	Quiet         bool // for CheckSums: do not print the names of files that match
	Status        bool // for CheckSums: print nothing, so that only the exit code shows the result
	IgnoreMissing bool
	Strict        bool // for CheckSums: a malformed line makes the command fail
	Warn          bool // for CheckSums: report each malformed line

	// Say prints each problem as soon as CheckSums finds it.
	Say func(error)
}

// check returns an error if the algorithm is unknown.
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

// A sumJob is a file to hash. If the file cannot be hashed, the sumJob holds only the error.
type sumJob struct {
	place sumPlace
	name  string      // name of the file in `place`
	info  fs.FileInfo // description of the file; nil if it is not known yet
	want  sumLine     // for CheckSums: the line of the list, with the expected sum
	bad   int         // for CheckSums: the number of the line, if it is malformed; otherwise 0
	err   error
}

// A summer is one execution of haul sum.
type summer struct {
	SumConfig
	problems
	out  io.Writer
	name func(string) string // formats names for output
}

func newSummer(cfg SumConfig, out io.Writer) *summer {
	return &summer{SumConfig: cfg, out: out, name: console.NameFormat(out)}
}

// print writes a line without buffering it, and reports whether that succeeded.
func (s *summer) print(line string) bool {
	_, err := io.WriteString(s.out, line)
	if err != nil {
		s.failed(failure.Local.Errorf("write the sums: %w", err))
	}
	return err == nil
}

// Sum prints the sums of files in the format of sha256sum.
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
			return s.print(line + end)
		}
		return ctx.Err() == nil && !remote.IsLost(err)
	})
	return s.err()
}

// find yields a job for each file that the locations stand for.
func (s *summer) find(ctx context.Context, servers *remote.Servers, at []remote.Location) iter.Seq[sumJob] {
	return func(yield func(sumJob) bool) {
		w := new(walk)
		for _, l := range at {
			place, list, errs := s.named(ctx, servers, l)
			if !s.yieldAll(ctx, w, place, list, errs, -1, yield) {
				return
			}
		}
	}
}

// named describes the files that a location names, and returns the place of these files.
func (s *summer) named(ctx context.Context, servers *remote.Servers, l remote.Location) (sumPlace, []entry, []error) {
	if l.Protocol != remote.Local {
		c, list, errs := entries(ctx, servers, l, true)
		return serverFiles{c}, list, errs
	}
	fi, err := os.Stat(l.Path)
	if err != nil {
		return localFiles{}, nil, []error{failure.Local.Wrap(err)}
	}
	return localFiles{}, []entry{{FileInfo: fi, path: l.Path, shown: l.Path}}, nil
}

// yieldAll yields a job for each entry and, if Recursive is set, for each file in directories. In
// directories it omits the same files as get -r does. It returns false if yield returns false.
func (s *summer) yieldAll(ctx context.Context, w *walk, place sumPlace, list []entry, errs []error, depth int, yield func(sumJob) bool) bool {
	for _, err := range errs {
		if !yield(sumJob{err: err}) {
			return false
		}
	}
	for _, e := range list {
		switch {
		case depth >= 0 && (tempname.Is(e.shown) || isSpecial(e) || w.over(place)):
		case e.IsDir() && s.Recursive:
			below, errs := w.list(ctx, place, e.path, depth+1, true)
			if !s.yieldAll(ctx, w, place, below, errs, depth+1, yield) {
				return false
			}
		case !yield(sumJob{place: place, name: e.path, info: e.FileInfo}):
			return false
		}
	}
	return true
}

// sum returns the sum of a file. If the server supports the algorithm, the server computes the sum.
// Otherwise sum reads the file.
func (s *summer) sum(ctx context.Context, j sumJob, a algorithm) ([]byte, error) {
	if j.err != nil {
		return nil, j.err
	}
	sum, err := s.hash(ctx, j, a)
	return sum, sideOf(j.place).Wrap(err)
}

func (s *summer) hash(ctx context.Context, j sumJob, a algorithm) ([]byte, error) {
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
		return nil, err
	case fi.IsDir():
		return nil, directory(j.name)
	case !s.Read && fi.Size() > 0:
		used, sum, err := treecopy.HashOf(ctx, f, fi.Size(), a.name)
		if err == nil && used == a.name {
			return sum, nil
		}
		if ctx.Err() != nil || remote.IsLost(err) {
			return nil, err
		}
	}
	h := treecopy.NewHash(a.name)
	if err := j.place.read(ctx, f, h); err != nil {
		return nil, err
	}
	return h.Sum(nil), nil
}

func directory(name string) error {
	return fmt.Errorf("sum %s: %w; -r sums all that is in it", console.Visible(name), treecopy.ErrDirectory)
}

// A sumPlace gives access to the files of a server, or to those of this machine.
type sumPlace interface {
	dirLister

	// open opens a file. fi describes the file, or is nil.
	open(ctx context.Context, name string, fi fs.FileInfo) (store.File, error)

	// read reads the whole file, and writes it to w.
	read(ctx context.Context, f store.File, w io.Writer) error
}

// sideOf returns the kind of an error about a file of a place: [failure.Local] or [failure.Remote].
func sideOf(place dirLister) failure.Kind {
	if place == (localFiles{}) {
		return failure.Local
	}
	return failure.Remote
}

// serverFiles provides the files of a server.
type serverFiles struct{ remote.Server }

func (p serverFiles) open(ctx context.Context, name string, fi fs.FileInfo) (_ store.File, err error) {
	// Prefer OpenListed: Open may make the server send the file, which a sum does not need.
	if open := p.Capabilities().OpenListed; open != nil {
		if fi == nil {
			fi, err = p.Stat(ctx, name)
		}
		if err == nil && !fi.IsDir() {
			return open(ctx, name, fi)
		}
	}
	if err != nil {
		return nil, err
	}
	return p.Open(ctx, name)
}

func (serverFiles) read(ctx context.Context, f store.File, w io.Writer) error {
	_, err := remote.Stream(ctx, f, w, "the sum")
	return err
}

// localFiles provides the files of this machine.
type localFiles struct{}

// maxLocalEntries is the maximum number of entries of a local directory. Directories on servers
// have such a maximum too.
const maxLocalEntries = 1 << 20

// List lists a directory. It always includes details.
func (localFiles) List(_ context.Context, dir string, _ bool) ([]fs.DirEntry, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	list, err := d.ReadDir(maxLocalEntries + 1)
	switch {
	case err == io.EOF: // the directory is empty
		return nil, nil
	case len(list) > maxLocalEntries:
		return nil, fmt.Errorf("list %s: more than %d entries", console.Visible(dir), maxLocalEntries)
	}
	return list, err
}

// Capabilities returns no capabilities, because this machine has none of the optional ones.
func (localFiles) Capabilities() store.Capabilities { return store.Capabilities{} }

func (localFiles) open(_ context.Context, name string, _ fs.FileInfo) (store.File, error) {
	return os.Open(name)
}

func (localFiles) read(_ context.Context, f store.File, w io.Writer) error {
	_, err := io.Copy(w, f.(*os.File))
	return err
}

// inOrder calls work for up to maxSums jobs at once, and calls use for each result, in the order of
// the jobs. It returns false if use returns false or the context ends. In these cases it does not
// wait for running calls of work, because they may wait for a pipe that never delivers more data.
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
