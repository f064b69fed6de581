package localdir

import (
	"errors"
	"sync"
)

// dirSyncs makes changes of names in directories durable, with one fsync for several changes. An
// fsync covers all changes that were made in its directory before it began; changes made while it
// runs wait for the next one. The first upload that waits for an fsync makes the system call. An
// upload has an entry here only while it is being published, so there are never more directories or
// waiting uploads than uploads that are being published.
//
// All stores share one table, because several stores may use the same directory, and a failed fsync
// concerns the uploads of all of them.
type dirSyncs struct {
	mu   sync.Mutex
	dirs map[dirID]*dirSync // the directories in which names are being changed; guarded by mu
}

var syncs dirSyncs

// A dirSync is a directory in which names are being changed. dirSyncs.mu guards it.
type dirSync struct {
	users  int        // number of calls of enter without a matching leave
	begun  int64      // how many fsyncs of the directory have begun
	ended  int64      // how many fsyncs of the directory have ended
	failed int64      // the number of the last fsync that failed, counted from 1; 0 if none has failed
	err    error      // the error of the fsync with the number `failed`
	next   *syncGroup // the uploads that wait for an fsync which has not begun; nil if no upload waits
	last   *syncGroup // the group whose fsync began last; nil before the first fsync
}

// A syncGroup is a group of uploads that wait for the same fsync.
type syncGroup struct {
	waiting int           // how many uploads wait; guarded by dirSyncs.mu
	done    chan struct{} // closed when the fsync ends
	// failed and err are copies of the dirSync's fields of these names, made when this group's
	// fsync ended. Later fsyncs do not concern the group.
	failed int64
	err    error
}

// errNoSync is the error of a group whose fsync call panicked.
var errNoSync = errors.New("fsync of the directory was not made")

// durably calls the function change, which changes names in dir, and waits until the changes are on
// the disk.
//
// If an fsync fails, everyone whose change may be lost gets the error: those who wait for that
// fsync, and those who change names while it runs. The kernel reports an error only once, so the
// next fsync would not notice the loss.
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

// enter returns the entry of a directory, and the number of an fsync. If that fsync or a later one
// fails, changes of names that the caller makes after enter may be lost.
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

// wait waits for an fsync that begins after the call of wait. All callers that wait for the same
// fsync form a group; the first of them makes the fsync.
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

// run makes the fsync for group g, which is the group of uploads that waits for the next fsync of
// s.
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
