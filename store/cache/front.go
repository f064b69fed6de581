package cache

import (
	"context"
	"encoding/hex"
	"io/fs"
	"strconv"
	"time"

	"github.com/haul-project/haul/store"
)

const (
	maxNames     = 1 << 16  // names of one source that are remembered, absent ones included
	maxNameBytes = 16 << 20 // of them together: clients choose names, of up to 4 kB
	maxInUse     = 64       // names that are looked at in vain for some to forget
	maxVersion   = 1 << 10  // bytes of a version that is remembered: a server may send an ETag of any length

	// staleRetry is how long a source is not asked again after it has failed, where the answer
	// that is there may be used instead.
	staleRetry = time.Second

	// A file that has changed within the time that its source cannot tell two changes
	// apart is not kept: ticks of a system's clock where the system has identities, or
	// seconds where there are times of modification only.
	tickTime   = 50 * time.Millisecond
	secondTime = 2 * time.Second
)

// A front is the cache in front of one source.
type front struct {
	c        *Cache
	location string
	source   store.Store
	names    map[string]*entry // guarded by Cache.mu
	bytes    int               // Cache.mu: of the names
	running  int               // Cache.mu: fetches under way
}

// An entry is what is known of a name of the source. All fields are guarded by Cache.mu.
type entry struct {
	object  *object     // the version that is there, if it is kept
	info    fs.FileInfo // of a file, from a description
	checked time.Time   // when the source said so; zero to ask it again
	known   time.Time   // the same, but not reset: for Config.Stale
	failed  time.Time   // when the source could not be asked last
	absent  time.Time   // until when there is no such file
	writers int         // handles that write in place
	open    *ask
	stat    *ask
}

// versionOf returns what distinguishes the version of a file or a description. It reports
// false if nothing does.
func (s *front) versionOf(f any, fi fs.FileInfo) (string, bool) {
	if v, ok := store.As[store.Versioned](f); ok {
		version := v.Version()
		return "v " + version, version != "" && len(version) <= maxVersion
	}
	if i, ok := store.As[store.Identifier](f); ok {
		if id, ok := i.Identity(); ok {
			sum := id.Digest()
			return "i " + hex.EncodeToString(sum[:16]), s.c.settled(id.Changed(), tickTime)
		}
	}
	t := fi.ModTime()
	return "t " + strconv.FormatInt(t.UnixNano(), 10), !t.IsZero() && s.c.settled(t, secondTime)
}

// openSource opens a file of the source, which stays open whatever becomes of ctx after
// that, until the cache is closed. version is "" if it cannot be kept.
func (s *front) openSource(ctx context.Context, name string) (o *origin, version string, err error) {
	s.c.count.asks.Add(1)
	own, cancel := context.WithCancel(s.c.ctx)
	stop := context.AfterFunc(ctx, cancel)
	f, err := s.source.Open(own, name)
	if err != nil {
		cancel()
		return nil, "", err
	}
	if !stop() {
		cancel()
		_ = f.Close()
		return nil, "", context.Cause(ctx)
	}
	fi, err := f.Stat()
	if err != nil {
		cancel()
		_ = f.Close()
		return nil, "", err
	}
	version, ok := s.versionOf(f, fi)
	if !ok || fi.Size() < 0 || !fi.Mode().IsRegular() || len(identity{s.location, name, version, fi.Size()}.String()) > maxInfo {
		version = ""
	}
	return &origin{file: f, info: fi, cancel: cancel}, version, nil
}

// entry returns what is known of a name, which is nothing at first. The caller holds mu.
func (s *front) entry(name string) *entry {
	n := s.names[name]
	if n == nil {
		n = &entry{}
		s.names[name] = n
		s.bytes += len(name)
		s.tidy(name)
	}
	return n
}

// tidy forgets some names if they are too many or too long, but not that one. It gives up after
// maxInUse names that are in use. The caller holds mu.
func (s *front) tidy(but string) {
	inUse := 0
	for other, n := range s.names {
		switch {
		case len(s.names) <= maxNames && s.bytes <= maxNameBytes || inUse > maxInUse:
			return
		case other == but || n.writers > 0 || n.open != nil || n.stat != nil || n.object != nil && n.object.readers > 0:
			inUse++
		default:
			s.lead(n, nil)
			delete(s.names, other)
			s.bytes -= len(other)
		}
	}
}

// leadToFound has names lead to the objects of an earlier process: of several versions to
// the one that was used last. The source is asked whether that is still right. The caller
// holds mu.
func (s *front) leadToFound() {
	latest := map[string]*object{}
	for _, o := range s.c.objects {
		if other := latest[o.name]; o.source == s.location && o.readers == 0 && (other == nil || o.lastUse().After(other.lastUse())) {
			latest[o.name] = o
		}
	}
	for name, o := range latest {
		if len(s.names) >= maxNames || s.bytes >= maxNameBytes {
			return
		}
		if n := s.entry(name); n.object == nil {
			s.lead(n, o)
		}
	}
}

// lastUse returns when a block was used last. The caller holds mu.
func (o *object) lastUse() (last time.Time) {
	for _, b := range o.blocks {
		if b.used.After(last) {
			last = b.used
		}
	}
	return last
}

// lead has a name lead to an object, or to none. The caller holds mu.
func (s *front) lead(n *entry, o *object) {
	if n.object == o {
		return
	}
	if old := n.object; old != nil {
		old.named = false
		old.forget()
	}
	if n.object = o; o != nil {
		o.named = true
	}
}

// expire has the source asked again for a file that could not be read.
func (s *front) expire(o *object) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if n := s.names[o.name]; n != nil && n.object == o {
		n.checked = time.Time{}
	}
}

// enter begins to open or to describe a name, and returns what is known of it, with mu held.
// It returns nothing, and does not hold mu, if the source itself has to answer, as what writes
// in place changes the file.
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

// Open opens a file of the source, or what the cache has of it.
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

// readable reports whether the object can be read without opening it at the source first.
// The caller holds mu.
func (o *object) readable() bool {
	return o.complete() || len(o.idle) > 0 || len(o.streams) > 0
}

// fresh reports whether the source need not be asked. The caller holds mu.
func (s *front) fresh(n *entry) bool {
	return !n.checked.IsZero() && s.c.now().Sub(n.checked) < s.c.cfg.Fresh
}

// mayStale reports whether what is known may be used if the source cannot be asked. The
// caller holds mu.
func (s *front) mayStale(n *entry) bool {
	return s.c.cfg.Stale > 0 && n.object != nil && !n.known.IsZero() &&
		s.c.now().Sub(n.known) < max(s.c.cfg.Fresh, 0)+s.c.cfg.Stale
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
	valid := n.open == a // nothing has changed it meanwhile
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
		n.info = nil
	}
	o.from = s
	if src != nil {
		o.info = src.info
		o.idle = append(o.idle, src)
	}
	o.readers++
	c.finish(a, o, nil, nil)
	c.mu.Unlock()
	// If nobody waits any more, the last to leave has not seen the answer.
}

// look asks the source only to describe a file that can be read without opening it, if that
// shows whether it is still the one. It returns nothing if the file has to be opened.
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

// openStale opens what the cache has of a file, as the source cannot be asked.
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

// described returns what is known of a file. The caller holds mu.
func (n *entry) described() fs.FileInfo {
	if n.object != nil && n.object.info != nil {
		return n.object.info
	}
	return n.info
}

// askStat has the source describe a name.
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
			break // it is opened again to see whether it is another
		}
		n.info, n.checked = fi, c.now()
		if n.object != nil {
			n.known = n.checked
		}
	}
	c.finish(a, nil, nil, err)
}
