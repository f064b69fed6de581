package cache

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/haul-project/haul/store"
)

const (
	maxNameLen = 4096 // longest name, in bytes, that the cache handles

	// staleRetry is how long after a failure a source is not asked again, if a cached answer can be
	// used instead.
	staleRetry = time.Second
)

// enter is called before a name is opened or described. It returns the entry of the name, and
// leaves mu locked. If the file is being written in place, only the source can answer: then enter
// returns nil, with mu unlocked.
func (s *front) enter(ctx context.Context, op, name string) (*entry, error) {
	if err := s.check(ctx, op, name); err != nil {
		return nil, err
	}
	s.c.mu.Lock()
	n := s.entry(name)
	switch {
	case n.writers > 0:
		s.c.mu.Unlock()
		return nil, nil
	case s.c.now().Before(n.absent):
		s.c.mu.Unlock()
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return n, nil
}

// Open opens the cached version of a file or, if that is missing or outdated, the file at the
// source.
func (s *front) Open(ctx context.Context, name string) (store.File, error) {
	c := s.c
	n, err := s.enter(ctx, "open", name)
	if err != nil {
		return nil, err
	}
	if n == nil {
		return s.source.Open(ctx, name)
	}
	if o := n.object; o != nil && (s.fresh(n) && o.readable() || s.mayStale(n) && c.now().Sub(n.failed) < staleRetry) {
		f := o.newFile(ctx)
		if !s.fresh(n) {
			c.count.stale.Add(1)
		}
		c.mu.Unlock()
		return f, nil
	}
	a := s.join(&n.open, func(ctx context.Context, a *ask) { s.askOpen(ctx, n, name, a) })
	c.mu.Unlock()
	defer s.leave(&n.open, a)
	if err := s.wait(ctx, n, a); err != nil {
		return s.openStale(ctx, n, name, err)
	}
	c.mu.Lock()
	o, src := a.object, a.file
	a.file = nil
	if o != nil {
		f := o.newFile(ctx)
		c.mu.Unlock()
		return f, nil
	}
	c.mu.Unlock()
	if src != nil {
		return newDirect(ctx, src), nil
	}
	return s.source.Open(ctx, name)
}

// askOpen opens a file at the source, and stores the answer in a. It is the function that join runs.
func (s *front) askOpen(ctx context.Context, n *entry, name string, a *ask) {
	c := s.c
	src, o, err := s.look(ctx, n, name)
	var version string
	if err == nil && o == nil {
		src, version, err = s.openSource(ctx, name)
	}
	c.mu.Lock()
	valid := n.open == a // false if the name was changed meanwhile, so that the answer may be outdated
	if valid {
		n.open = nil
	}
	if err != nil {
		s.failed(n, valid, err, name)
		c.finish(a, nil, nil, err)
		c.mu.Unlock()
		return
	}
	switch {
	case o != nil:
	case version == "":
		s.lead(n, nil)
		c.finish(a, nil, src, nil)
		c.mu.Unlock()
		return
	case valid:
		o = c.object(identity{s.location, name, version, src.info.Size()})
		s.lead(n, o)
	default:
		o = c.newObject(identity{s.location, name, version, src.info.Size()})
		o.gone = true
	}
	if valid {
		n.checked, n.known, n.failed, n.absent = c.now(), c.now(), time.Time{}, time.Time{}
		n.info, o.suspect = nil, false
	}
	o.from = s.upstream
	if src != nil {
		o.info = src.info
		o.idle = append(o.idle, src)
	}
	o.readers++
	c.finish(a, o, nil, nil)
	c.mu.Unlock()
	// If no caller waits any more, leave discards the answer.
}

// look tries to avoid opening the file at the source. If the cached version can be read, and a
// description of the file shows whether that version is still current, look asks the source only
// for a description. It returns neither a file nor an object if the file has to be opened.
func (s *front) look(ctx context.Context, n *entry, name string) (*origin, *object, error) {
	c := s.c
	c.mu.Lock()
	o := n.object
	readable := o != nil && !o.gone && o.readable() && o.version[0] != 'i'
	c.mu.Unlock()
	if !readable {
		return nil, nil, nil
	}
	c.count.asks.Add(1)
	fi, err := s.source.Stat(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if version, ok := s.versionOf(fi, fi); ok && version == o.version && fi.Size() == o.size {
		c.mu.Lock()
		o.info = fi
		c.mu.Unlock()
		return nil, o, nil
	}
	return nil, nil, nil
}

// openStale opens the cached version of a file when the source could not be asked. Otherwise it
// returns err.
func (s *front) openStale(ctx context.Context, n *entry, name string, err error) (store.File, error) {
	c := s.c
	if isAnswer(err) || ctx.Err() != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !s.mayStale(n) {
		return nil, err
	}
	n.failed = c.now()
	c.count.stale.Add(1)
	c.start(func() {
		c.trouble("the source cannot be asked: the cache serves what it has", err, "source", s.location, "file", name)
	})
	return n.object.newFile(ctx), nil
}

// Stat describes a name, from the cache or by asking the source.
func (s *front) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	c := s.c
	n, err := s.enter(ctx, "stat", name)
	if err != nil {
		return nil, err
	}
	if n == nil {
		return s.source.Stat(ctx, name)
	}
	if fi := n.described(); fi != nil && s.fresh(n) {
		c.mu.Unlock()
		return fi, nil
	}
	a := s.join(&n.stat, func(ctx context.Context, a *ask) { s.askStat(ctx, n, name, a) })
	c.mu.Unlock()
	defer s.leave(&n.stat, a)
	err = s.wait(ctx, n, a)
	if err == nil {
		return a.info, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if fi := n.described(); fi != nil && s.mayStale(n) && !isAnswer(err) && ctx.Err() == nil {
		c.count.stale.Add(1)
		return fi, nil
	}
	return nil, err
}

// askStat asks the source to describe a name, and stores the answer in a. It is the function that
// join runs.
func (s *front) askStat(ctx context.Context, n *entry, name string, a *ask) {
	c := s.c
	c.count.asks.Add(1)
	fi, err := s.source.Stat(ctx, name)
	version, ok := "", false
	if err == nil {
		version, ok = s.versionOf(fi, fi)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	valid := n.stat == a
	if valid {
		n.stat = nil
	}
	a.info = fi
	switch {
	case err != nil:
		s.failed(n, valid, err, name)
	case valid && fi.Mode().IsRegular() && ok:
		if o := n.object; o != nil && (o.version != version || o.size != fi.Size()) {
			break // opening the file will show whether it has changed
		}
		n.info, n.checked = fi, c.now()
		if n.object != nil {
			n.known, n.object.suspect = n.checked, false
		}
	}
	c.finish(a, nil, nil, err)
}

// failed records that the source returned an error for a name. `valid` says that the name has not
// changed meanwhile. The caller holds mu.
func (s *front) failed(n *entry, valid bool, err error, name string) {
	c := s.c
	if errors.Is(err, context.Canceled) && c.ctx.Err() == nil {
		return // the request was cancelled because no caller waits any more
	}
	if isAnswer(err) {
		if valid {
			s.lead(n, nil)
			n.info = nil
			n.checked, n.known = time.Time{}, time.Time{}
			if errors.Is(err, fs.ErrNotExist) && c.cfg.Absent > 0 {
				n.absent = c.now().Add(c.cfg.Absent)
			}
		}
		return
	}
	n.failed = c.now()
	c.count.sourceErrors.Add(1)
	c.start(func() { c.trouble("a source cannot be reached", err, "source", s.location, "file", name) })
}

// isAnswer reports whether an error is the source's answer about the name. Any other error means
// that the source could not be asked.
func isAnswer(err error) bool {
	for _, kind := range []error{fs.ErrNotExist, fs.ErrPermission, fs.ErrInvalid, store.ErrNotRegular, store.ErrUnsettled} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// check returns an error if the name is invalid, ctx has ended, or the cache is closed.
func (s *front) check(ctx context.Context, op, name string) error {
	err := ctx.Err()
	switch {
	case err != nil:
	case !store.ValidName(name) || len(name) > maxNameLen:
		err = fs.ErrInvalid
	case s.c.isClosed.Load():
		err = fs.ErrClosed
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}
