package cache

import (
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/haul-project/haul/store"
)

const (
	maxNames     = 1 << 16  // names of one source that are remembered, absent ones included
	maxNameBytes = 16 << 20 // of them together: clients choose names, of up to 4 kB
	maxInUse     = 64       // names that are looked at in vain for some to forget
)

// A front is the cache in front of one source.
type front struct {
	c *state
	*upstream
	names map[string]*entry // guarded by state.mu
	bytes int               // state.mu: of the names
}

// An entry is what is known of a name of the source. All fields are guarded by state.mu.
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

// fresh reports whether the source need not be asked. The caller holds mu.
func (s *front) fresh(n *entry) bool {
	suspect := n.object != nil && n.object.suspect
	return !n.checked.IsZero() && !suspect && s.c.now().Sub(n.checked) < s.c.cfg.Fresh
}

// mayStale reports whether what is known may be used if the source cannot be asked. The
// caller holds mu.
func (s *front) mayStale(n *entry) bool {
	return s.c.cfg.Stale > 0 && n.object != nil && !n.known.IsZero() &&
		s.c.now().Sub(n.known) < max(s.c.cfg.Fresh, 0)+s.c.cfg.Stale
}

// described returns what is known of a file. The caller holds mu.
func (n *entry) described() fs.FileInfo {
	if n.object != nil && n.object.info != nil {
		return n.object.info
	}
	return n.info
}

// forgetName forgets what is known of a name, which has changed, and that names above it are
// absent. It returns the object that it has led to. The caller holds mu.
func (s *front) forgetName(name string) *object {
	if !store.ValidName(name) {
		return nil
	}
	var was *object
	if n := s.names[name]; n != nil {
		was = n.object
		s.lead(n, nil)
		n.clear()
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if n := s.names[dir]; n != nil && n.object == nil {
			n.clear()
		}
	}
	return was
}

// clear forgets what is known. Questions under way were asked before. The caller holds mu.
func (n *entry) clear() {
	n.info, n.open, n.stat = nil, nil, nil
	n.checked, n.known, n.failed, n.absent = time.Time{}, time.Time{}, time.Time{}, time.Time{}
}

// changed notes that the content of a name has changed, or may have.
func (s *front) changed(name string) {
	s.c.mu.Lock()
	was := s.forgetName(name)
	s.c.mu.Unlock()
	if was != nil {
		s.c.replace(was)
	}
}

// changedBelow notes that a name has changed, and all names below it.
func (s *front) changedBelow(name string) {
	s.c.mu.Lock()
	gone := []*object{s.forgetName(name)}
	for other := range s.names {
		if strings.HasPrefix(other, name+"/") {
			gone = append(gone, s.forgetName(other))
		}
	}
	s.c.mu.Unlock()
	for _, o := range gone {
		if o != nil {
			s.c.replace(o)
		}
	}
}
