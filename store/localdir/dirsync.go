package localdir

import (
	"errors"
	"sync"
)

// dirSyncs make names in directories durable, many by one fsync. The changes of names
// that were made before an fsync of their directory begins share it; those made while
// it runs wait for the next. An upload has a place here while it is published, so the
// table has as many directories, and an fsync as many who wait, as there are uploads
// at that point. The first upload that waits makes the call.
//
// All stores share one table: several may have the same directory, and the error of an
// fsync concerns the uploads of all.
type dirSyncs struct {
	mu   sync.Mutex
	dirs map[dirID]*dirSync // mu: of those who change names now
}

var syncs dirSyncs

// A dirSync is the directory of some who change names. mu of dirSyncs protects it.
type dirSync struct {
	users  int
	begun  int64      // fsyncs that have begun
	ended  int64      // and ended
	failed int64      // the number of the last of these that failed, from 1; 0 for none
	err    error      // and its error
	next   *syncGroup // waits for an fsync that has not begun; nil if nobody does
	last   *syncGroup // has the one that began last; nil if none has
}

// A syncGroup waits for one fsync.
type syncGroup struct {
	waiting int           // mu of dirSyncs
	done    chan struct{} // closed at its end
	failed  int64         // failed and err of the dirSync then: those that begin later do not concern the group
	err     error
}

// errNoSync is the error of an fsync that has panicked.
var errNoSync = errors.New("fsync of the directory was not made")

// durably calls change, which changes names in dir, and waits until they are on the
// disk.
//
// An fsync that fails is an error of all whose change may have been among what the disk
// did not take: of those who wait for it, and of those who change names while it runs.
// The kernel reports the error once, so the next fsync would not find what is lost.
func (c *calls) durably(dir directory, change func() error) error {
	fsync := func() error { return c.call("syncdir", func() error { return syncDir(dir) }) }
	id, ok := identify(dir)
	if !ok {
		if err := change(); err != nil {
			return err
		}
		return fsync()
	}
	s, first := syncs.enter(id)
	defer syncs.leave(id, s)
	if err := change(); err != nil {
		return err
	}
	if g := syncs.wait(s, fsync); g.failed >= first {
		return g.err
	}
	return nil
}

// enter returns the place of a directory, and the number of the first fsync whose
// failure concerns a change of names that follows.
func (t *dirSyncs) enter(id dirID) (s *dirSync, first int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.dirs == nil {
		t.dirs = map[dirID]*dirSync{}
	}
	if s = t.dirs[id]; s == nil {
		s = new(dirSync)
		t.dirs[id] = s
	}
	s.users++
	return s, s.ended + 1
}

func (t *dirSyncs) leave(id dirID, s *dirSync) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(t.dirs, id)
	}
}

// wait returns when an fsync has ended that began after the call, with all who waited
// for it. It makes that fsync itself if nobody else waits.
func (t *dirSyncs) wait(s *dirSync, fsync func() error) *syncGroup {
	t.mu.Lock()
	g, leads := s.next, s.next == nil
	if leads {
		g = &syncGroup{done: make(chan struct{})}
		s.next = g
	}
	g.waiting++
	last := s.last
	t.mu.Unlock()
	if !leads {
		<-g.done
		return g
	}
	if last != nil {
		<-last.done
	}
	t.run(s, g, fsync)
	return g
}

// run makes the fsync of a group, which is the next of its directory.
func (t *dirSyncs) run(s *dirSync, g *syncGroup, fsync func() error) {
	t.mu.Lock()
	s.next, s.last = nil, g
	s.begun++
	t.mu.Unlock()
	err := errNoSync
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		s.ended = s.begun
		if err != nil {
			s.failed, s.err = s.ended, err
		}
		g.failed, g.err = s.failed, s.err
		close(g.done)
	}()
	err = fsync()
}
