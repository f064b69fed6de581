package localdir

import (
	"errors"
	"sync"
)

// dirSyncs makes names in directories durable, many by one fsync. All changes of names that were
// made before an fsync of their directory begins share it; those made while it runs wait for the
// next one. An upload has an entry here only while it is published, so neither the number of
// directories nor that of waiting uploads exceeds the number of uploads that are being published.
// The first upload that waits makes the call.
//
// All stores share one table: several may have the same directory, and the error of an fsync
// concerns the uploads of all of them.
type dirSyncs struct {
	mu   sync.Mutex
	dirs map[dirID]*dirSync // guarded by mu: directories in which names are being changed
}

var syncs dirSyncs

// A dirSync is one directory in which names are being changed. dirSyncs.mu guards it.
type dirSync struct {
	users  int
	begun  int64      // number of fsyncs that have begun
	ended  int64      // number of fsyncs that have ended
	failed int64      // number of the last failed fsync, from 1; 0 for none
	err    error      // error of that fsync
	next   *syncGroup // waits for an fsync that has not begun; nil if nobody waits
	last   *syncGroup // the group of the fsync that began last; nil before the first
}

// A syncGroup is a group of uploads that wait for one fsync.
type syncGroup struct {
	waiting int           // guarded by dirSyncs.mu
	done    chan struct{} // closed when the fsync ends
	failed  int64         // failed and err of the dirSync at that time: later fsyncs do not concern the group
	err     error
}

// errNoSync is the error of an fsync that panicked.
var errNoSync = errors.New("fsync of the directory was not made")

// durably calls change, which changes names in dir, and waits until the changes are on the disk.
//
// A failed fsync is an error for everyone whose change may be lost: those who wait for it, and
// those who change names while it runs. The kernel reports the error only once, so the next fsync
// would not notice the loss.
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

// enter returns the entry of a directory, and the number of the first fsync whose failure concerns
// a change of names made after this call.
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

// wait waits for an fsync that begins after the call, together with everyone else who waits for it.
// The first one to wait makes the fsync.
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

// run makes the fsync of a group, which is the next one of its directory.
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
