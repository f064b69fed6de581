//go:build unix

package localdir_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// heldSync is a store whose first fsync of a directory begins, and then waits until it is released.
type heldSync struct {
	*localdir.Dir
	dir            string
	calls          atomic.Int64 // number of fsyncs of directories
	begun, release chan struct{}
	commits        sync.WaitGroup
	errs           chan error // errors of the commits
}

// holdSync returns a heldSync. outcome returns the error of the fsync with the given number, counted
// from 1.
func holdSync(t *testing.T, outcome func(n int64) error) *heldSync {
	dir, d := tempDir(t)
	h := &heldSync{Dir: d, dir: dir, begun: make(chan struct{}), release: make(chan struct{}), errs: make(chan error, 100)}
	d.Before(func(call string) error {
		if call != "syncdir" {
			return nil
		}
		n := h.calls.Add(1)
		if n == 1 {
			close(h.begun)
			<-h.release
		}
		return outcome(n)
	})
	return h
}

// commit publishes an upload in a new goroutine.
func (h *heldSync) commit(t *testing.T, name string, c store.Create) { h.commitTo(t, h.Dir, name, c) }

// commitTo publishes an upload to another store in the same directory.
func (h *heldSync) commitTo(t *testing.T, d *localdir.Dir, name string, c store.Create) {
	u := begin(t, d, name, c)
	h.commits.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				h.errs <- fmt.Errorf("%v", p)
			}
		}()
		h.errs <- u.Commit()
	})
}

// await waits until the given number of uploads wait for the next fsync.
func (h *heldSync) await(waiting int) {
	for localdir.SyncWaiting() != waiting {
		time.Sleep(time.Millisecond)
	}
}

// end releases the fsync, and returns the errors of all commits.
func (h *heldSync) end() (errs []error) {
	close(h.release)
	h.commits.Wait()
	close(h.errs)
	for err := range h.errs {
		errs = append(errs, err)
	}
	return errs
}

// One fsync of a directory serves all uploads that had their names before it began. Uploads that
// get their names while it runs share the next fsync. Uploads in another directory do not wait.
func TestDirSyncsAreGrouped(t *testing.T) {
	const many = 40
	for _, c := range []store.Create{{}, {Exclusive: true}} {
		h := holdSync(t, func(int64) error { return nil })
		if err := os.Mkdir(filepath.Join(h.dir, "other"), 0o755); err != nil {
			t.Fatal(err)
		}
		h.commit(t, "first", c)
		<-h.begun
		if err := upload(t, h.Dir, "other/f", "content", c); err != nil {
			t.Error(err)
		}
		if n := h.calls.Load(); n != 2 {
			t.Errorf("an upload to another directory: %d fsyncs, want 2", n)
		}
		for i := range many {
			h.commit(t, fmt.Sprint("f", i), c)
		}
		h.await(many)
		for i := range many { // they have their names, and wait until these are durable
			wantFile(t, h.dir, fmt.Sprint("f", i), "")
		}
		for _, err := range h.end() {
			if err != nil {
				t.Error(err)
			}
		}
		if n := h.calls.Load(); n != 3 {
			t.Errorf("%d uploads to one directory, and one to another, took %d fsyncs of directories, want 3", many+1, n)
		}
		if n := localdir.SyncDirs(); n != 0 {
			t.Errorf("%d directories are still known", n)
		}
	}
}

// If an fsync fails, all uploads that it served get the error, and so do the uploads that got their
// names while it ran: the next fsync succeeds, but does not notice what was lost. Later uploads get
// no error.
func TestDirSyncFails(t *testing.T) {
	const many = 10
	for _, test := range []struct {
		name           string
		failing, wrong int // the number of the fsync that fails, and how many uploads fail because of it
		fail           func() error
	}{
		{"the first", 1, 1 + many, func() error { return syscall.EIO }},
		{"the second", 2, many, func() error { return syscall.ENOSPC }},
		{"with a panic", 1, 1 + many, func() error { panic("of a test") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := holdSync(t, func(n int64) error {
				if n == int64(test.failing) {
					return test.fail()
				}
				return nil
			})
			h.commit(t, "first", store.Create{})
			<-h.begun
			for i := range many {
				h.commit(t, fmt.Sprint("f", i), store.Create{})
			}
			h.await(many)
			wrong := 0
			for _, err := range h.end() {
				if err != nil {
					wrong++
				}
				if test.failing == 2 && err != nil && !errors.Is(err, store.ErrNoSpace) {
					t.Errorf("error %v, want %v", err, store.ErrNoSpace)
				}
			}
			if wrong != test.wrong {
				t.Errorf("%d uploads failed, want %d", wrong, test.wrong)
			}
			if n := h.calls.Load(); n != 2 {
				t.Errorf("%d fsyncs, want 2", n)
			}
			if err := upload(t, h.Dir, "later", "content", store.Create{}); err != nil {
				t.Errorf("an upload after that: %v", err)
			}
			wantNoTemps(t, h.dir)
		})
	}
}

// If an fsync fails, the uploads to another store in the same directory get the error too.
func TestDirSyncFailsForAllStores(t *testing.T) {
	h := holdSync(t, func(int64) error { return syscall.EIO })
	h.commit(t, "first", store.Create{})
	<-h.begun
	other := dirAt(t, h.dir)
	named := make(chan struct{})
	other.Before(func(call string) error {
		if call == "rename" {
			close(named)
		}
		return nil
	})
	h.commitTo(t, other, "second", store.Create{})
	<-named // by now the second upload has joined the fsync, if both stores share it
	for _, err := range h.end() {
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("an upload ends with %v, want %v", err, syscall.EIO)
		}
	}
}
