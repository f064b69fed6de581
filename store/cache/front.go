package cache

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/haul-project/haul/store"
)

const (
	maxNameLen = 4096 // longest name that is remembered, in bytes

	// staleRetry is how long a source is not asked again after a failure, if a cached answer may be
	// used instead.
	staleRetry = time.Second
)

// enter starts to open or describe a name. It returns the entry of the name, with mu held. If the
// file is being written in place, the source itself has to answer; then enter returns nil, and mu
// is not held.
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

// Open opens a file of the source, or the cached version of it.
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

// askOpen opens a file at the source.
func (s *front) askOpen(ctx context.Context, n *entry, name string, a *ask) {
	c := s.c
	src, o, err := s.look(ctx, n, name)
	var version string
	if err == nil && o == nil {
		src, version, err = s.openSource(ctx, name)
	}
	c.mu.Lock()
	valid := n.open == a // false if the name has changed meanwhile
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

// look avoids opening the file at the source if the cached file can be read without that. If a
// description shows whether the version is still the same, look only asks the source for one. It
// returns nothing if the file has to be opened.
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

// openStale opens the cached version of a file because the source could not be asked.
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

// Stat describes a name of the source.
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

// askStat requests a description of a name from the source.
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
			break // it is reopened to check whether it has changed
		}
		n.info, n.checked = fi, c.now()
		if n.object != nil {
			n.known, n.object.suspect = n.checked, false
		}
	}
	c.finish(a, nil, nil, err)
}

// failed records an error from the source. The caller holds mu.
func (s *front) failed(n *entry, valid bool, err error, name string) {
	c := s.c
	if errors.Is(err, context.Canceled) && c.ctx.Err() == nil {
		return // no caller waits any more
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

// isAnswer reports whether an error is an answer about the name. Otherwise the source could not be
// asked.
func isAnswer(err error) bool {
	for _, kind := range []error{fs.ErrNotExist, fs.ErrPermission, fs.ErrInvalid, store.ErrNotRegular, store.ErrUnsettled} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// check returns an error for an impossible name, or if nothing can be opened any more.
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
