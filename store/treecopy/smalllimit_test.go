package treecopy_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/treecopy"
)

// These are the bounds of treecopy: see smalllimit.go.
const (
	smallAtOnce = 64
	othersOpen  = 32
)

// A farTree is on a server with a given round trip and a given number of open files and
// directories.
type farTree struct {
	store.Tree
	trip     time.Duration
	room     int             // 0 for no bound
	announce bool            // it announces room
	refuses  map[string]bool // these files are refused, with the same error

	mu         sync.Mutex
	open, peak int // mu
	tries      int // mu: attempts to open one of refuses
}

var errFailure = errors.New("failure")

func (f *farTree) Capabilities() store.Capabilities {
	return store.Capabilities{Distance: &store.Distance{RoundTrip: f.roundTrip, OpenFiles: f.openFiles, TooManyOpen: f.tooManyOpen}}
}

func (f *farTree) roundTrip() time.Duration { return f.trip }

func (f *farTree) tooManyOpen(err error) bool { return errors.Is(err, errFailure) }

func (f *farTree) openFiles() int {
	if f.announce {
		return f.room
	}
	return 0
}

// take waits for a round trip, and counts one more open file or directory.
func (f *farTree) take(name string) error {
	time.Sleep(f.trip)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuses[name] {
		f.tries++
		return errFailure
	}
	if f.room > 0 && f.open == f.room {
		return errFailure
	}
	f.open++
	f.peak = max(f.peak, f.open)
	return nil
}

func (f *farTree) give() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open--
}

func (f *farTree) Open(ctx context.Context, name string) (store.File, error) {
	if err := f.take(name); err != nil {
		return nil, err
	}
	file, err := f.Tree.Open(ctx, name)
	return &farFile{File: file, tree: f}, err
}

func (f *farTree) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	if err := f.take(name); err != nil {
		return nil, err
	}
	defer f.give()
	return f.Tree.OpenDir(ctx, name)
}

func (f *farTree) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	if err := f.take(name); err != nil {
		return nil, err
	}
	u, err := f.Tree.Create(ctx, name, c)
	return &farUpload{Upload: u, tree: f}, err
}

type farFile struct {
	store.File
	tree *farTree
}

func (f *farFile) ReadAt(p []byte, off int64) (int, error) {
	time.Sleep(f.tree.trip)
	return f.File.ReadAt(p, off)
}

func (f *farFile) Close() error {
	f.tree.give()
	return f.File.Close()
}

type farUpload struct {
	store.Upload
	tree *farTree
	done atomic.Bool
}

func (u *farUpload) Commit() error {
	time.Sleep(u.tree.trip)
	u.end()
	return u.Upload.Commit()
}

func (u *farUpload) Close() error {
	u.end()
	return u.Upload.Close()
}

func (u *farUpload) end() {
	if !u.done.Swap(true) {
		u.tree.give()
	}
}

// copyFar copies a directory of small files from or to a farTree, in a bubble.
func copyFar(t *testing.T, upload bool, files int, configure func(*farTree)) (r treecopy.Result, far *farTree, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		from, to := store.Mem(0), store.Mem(0)
		for i := range files {
			put(t, from, fmt.Sprintf("d/%d/%d", i%7, i), pattern(100, uint64(i)))
		}
		source, target := from, to
		if upload {
			far = &farTree{Tree: to}
			target = far
		} else {
			far = &farTree{Tree: from}
			source = far
		}
		configure(far)
		r, _, err = copyAll(t.Context(), source, target, ".", recursive, "d")
		if far.open != 0 {
			t.Errorf("%d are still open", far.open)
		}
	})
	return r, far, err
}

// The longer the round trip, the more small files are under way, up to a bound, and up to the
// number that the server announces.
func TestSmallLimitFollowsTheRoundTrip(t *testing.T) {
	for _, test := range []struct {
		trip     time.Duration
		room     int
		min, max int // open at once, with up to 16 directories
	}{
		{0, 0, 1, smallAtOnce + 16},
		{time.Millisecond, 0, smallAtOnce / 2, smallAtOnce + 16},
		{20 * time.Millisecond, 0, 400, treecopy.MaxSmall},
		{200 * time.Millisecond, 0, 500, treecopy.MaxSmall + 16},
		{200 * time.Millisecond, 200, 150, 200 - othersOpen + 16},
		{20 * time.Millisecond, 20, 8, 20},
	} {
		for _, upload := range []bool{false, true} {
			r, far, err := copyFar(t, upload, 2000, func(f *farTree) {
				f.trip, f.room, f.announce = test.trip, test.room, true
			})
			if err != nil || r.Copied != 2000 {
				t.Errorf("%v, upload %v: %+v, %v", test.trip, upload, r, err)
			}
			if far.peak < test.min || far.peak > test.max {
				t.Errorf("%v, %d files open at the server at most, upload %v: %d were open, want %d to %d", test.trip, test.room, upload, far.peak, test.min, test.max)
			}
		}
	}
}

// A copy in place has no more small files under way than over a path with a short round trip: if it
// fails, it leaves them all under their own names.
func TestSmallLimitInPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, to := store.Mem(0), store.Mem(0)
		for i := range 1000 {
			put(t, from, fmt.Sprintf("d/%d", i), pattern(100, uint64(i)))
		}
		far := &farTree{Tree: from, trip: 200 * time.Millisecond}
		inPlace := recursive
		inPlace.InPlace = true
		r, _, err := copyAll(t.Context(), far, to, ".", inPlace, "d")
		if err != nil || r.Copied != 1000 {
			t.Errorf("%+v, %v", r, err)
		}
		if far.peak > smallAtOnce+1 { // one more for a directory
			t.Errorf("%d were open, want %d", far.peak, smallAtOnce)
		}
	})
}

// A server that does not announce how many files it can have open, and refuses one more without a
// reason, gets fewer at once, and each refused file is tried again.
func TestSmallLimitAfterRefusals(t *testing.T) {
	for _, room := range []int{400, 100, 30} {
		for _, upload := range []bool{false, true} {
			r, _, err := copyFar(t, upload, 2000, func(f *farTree) { f.trip, f.room = 50*time.Millisecond, room })
			if err != nil || r.Copied != 2000 || r.Failed != 0 {
				t.Errorf("%d files open at the server at most, upload %v: %+v, %v", room, upload, r, err)
			}
		}
	}
}

// Files that a server refuses for another reason, with the same error, fail after some attempts,
// which have a bound for all files together.
func TestRefusedWhateverTheLimit(t *testing.T) {
	const attempts = 7 // 512, 256, ... 8 at once
	for _, refused := range []int{1, 100} {
		r, far, err := copyFar(t, false, 2000, func(f *farTree) {
			f.trip, f.refuses = 50*time.Millisecond, map[string]bool{}
			for i := range refused {
				f.refuses[fmt.Sprintf("d/%d/%d", i%7, i)] = true
			}
		})
		if !errors.Is(err, errFailure) || r.Failed != int64(refused) || r.Copied != int64(2000-refused) {
			t.Errorf("%d are refused: %+v, %v", refused, r, err)
		}
		var reason *treecopy.EntryError
		if errors.As(err, &reason) && reason.Err != errFailure {
			t.Errorf("the reason is %#v, want the tree's own", reason.Err)
		}
		if far.tries > attempts*refused {
			t.Errorf("%d are refused: %d attempts", refused, far.tries)
		}
	}
}
