package cache

import (
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/haul-project/haul/store"
)

const (
	maxNames     = 1 << 16  // most names of one source that are remembered, including names that do not exist
	maxNameBytes = 16 << 20 // most bytes of these names together: a client can choose names of up to 4 kB
	maxInUse     = 64       // number of names in use after which tidy gives up
)

// A front is the cached store for one source.
type front struct {
	c *state
	*upstream
	names map[string]*entry // guarded by state.mu
	bytes int               // total length of the names in bytes; guarded by state.mu
}

// An entry holds the information that the cache has about a name. All fields are guarded by
// state.mu.
type entry struct {
	object  *object     // the current version of the file, if it is cached
	info    fs.FileInfo // the source's description of the file
	checked time.Time   // when the source last confirmed object and info; zero if it must be asked again
	// known is like checked, but is not reset to zero when the source must be asked again. It
	// limits how long the entry can be used without an answer: see Config.Stale.
	known   time.Time
	failed  time.Time // when a request to the source last failed
	absent  time.Time // until this time, the cache assumes that the name does not exist
	writers int       // how many handles are writing to the file in place
	open    *ask
	stat    *ask
}

// entry returns the entry of a name. For a new name it creates an empty entry. The caller holds mu.
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

// tidy forgets some names if there are too many, or if they are too long in total, but never the
// name `but`. It gives up after it has met maxInUse names that are in use. The caller holds mu.
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

// leadToFound links names to objects that an earlier process stored. If there are several versions
// of a file, it chooses the one that was used last. Before such a version is used, the source is
// asked whether it is still current. The caller holds mu.
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

// lead links a name's entry to an object, or to no object if o is nil. The caller holds mu.
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

// fresh reports whether the entry can be used without asking the source. The caller holds mu.
func (s *front) fresh(n *entry) bool {
	suspect := n.object != nil && n.object.suspect
	return !n.checked.IsZero() && !suspect && s.c.now().Sub(n.checked) < s.c.cfg.Fresh
}

// mayStale reports whether the entry can be used if the source cannot be asked. The caller holds
// mu.
func (s *front) mayStale(n *entry) bool {
	return s.c.cfg.Stale > 0 && n.object != nil && !n.known.IsZero() &&
		s.c.now().Sub(n.known) < max(s.c.cfg.Fresh, 0)+s.c.cfg.Stale
}

// described returns the newest description of the file that the source has given. The caller holds
// mu.
func (n *entry) described() fs.FileInfo {
	if n.object != nil && n.object.info != nil {
		return n.object.info
	}
	return n.info
}

// forgetName forgets all information about a name that has changed. It also forgets that
// directories above the name do not exist, as they may have been made. It returns the object that
// the name was linked to. The caller holds mu.
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

// clear forgets all information. It forgets requests in progress too, because their answers may be
// outdated. The caller holds mu.
func (n *entry) clear() {
	n.info, n.open, n.stat = nil, nil, nil
	n.checked, n.known, n.failed, n.absent = time.Time{}, time.Time{}, time.Time{}, time.Time{}
}

// changed records that the file of a name has changed, or may have changed.
func (s *front) changed(name string) {
	s.c.mu.Lock()
	was := s.forgetName(name)
	s.c.mu.Unlock()
	if was != nil {
		s.c.replace(was)
	}
}

// changedBelow records that a name and all names below it have changed.
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
