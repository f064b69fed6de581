package copying

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/store/treecopy"
)

// unknownSize is the size of an item that is not known before it has moved.
const unknownSize = -1

// A tracker adds up how far a get or a put is. What moves files calls it: for a tree those
// are the hooks of a treecopy.Job. Its methods allocate nothing for a file that is under way.
type tracker struct {
	mu      sync.Mutex
	found   treecopy.Totals              // mu
	moved   int64                        // mu: bytes of files, those that were there before included
	files   int64                        // mu: that are done
	unsized int                          // mu: files whose size is not known; only those that movedTo and ended are about
	active  map[*treecopy.Item]*underWay // mu
	rate    console.RateMeter            // mu
}

// An underWay is a file that is being copied.
type underWay struct {
	since       time.Time
	moved, size int64 // the size is 0 if it is not known
}

// setFound says how much there is to copy.
func (t *tracker) setFound(found treecopy.Totals) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.found = found
}

// expect says that so many files are to be copied, whose sizes are not known yet.
func (t *tracker) expect(files int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.found, t.unsized = treecopy.Totals{Files: int64(files)}, files
}

// started says that a file is being copied from now on.
func (t *tracker) started(i *treecopy.Item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active[i] = &underWay{since: time.Now(), size: max(i.Size, 0)}
}

// progressed says that n more bytes of a file have moved.
func (t *tracker) progressed(i *treecopy.Item, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moved += n
	if a := t.active[i]; a != nil {
		a.moved += n
	}
}

// movedTo says how many bytes of a file have moved by now, and of how many, if that is
// known now for the first time.
func (t *tracker) movedTo(i *treecopy.Item, bytes, size int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.active[i]
	if a == nil {
		return
	}
	if a.size == 0 && size > 0 {
		a.size = size
		t.sized(size)
	}
	t.moved += bytes - a.moved
	a.moved = bytes
}

// sized says how large a file is whose size was not known. The caller holds mu.
func (t *tracker) sized(size int64) {
	t.found.Bytes += size
	t.unsized--
	t.found.All = t.unsized == 0
}

// ended says that nothing more of an entry moves, whether it was started or not. It returns
// how long it was under way.
func (t *tracker) ended(i *treecopy.Item) (took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i.Extra {
		return 0
	}
	if i.Type == 0 {
		t.files++
	}
	if a := t.active[i]; a != nil {
		took = time.Since(a.since)
		if a.size == 0 && t.unsized > 0 {
			t.sized(a.moved)
		}
		t.moved += max(a.size-a.moved, 0) // what was skipped, or failed, is not left to do
	} else if i.Type == 0 {
		t.moved += max(i.Size, 0)
	}
	delete(t.active, i)
	return took
}

// A copyState is how far a copy is.
type copyState struct {
	found  treecopy.Totals
	moved  int64
	files  int64
	rate   int64        // bytes a second
	active []activeFile // longest first
}

// An activeFile is a file of a [copyState].
type activeFile struct {
	item *treecopy.Item
	underWay
}

// state returns how far the copy is. since leaves out the files that began later.
func (t *tracker) state(now, since time.Time) copyState {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rate.Add(now, t.moved)
	s := copyState{found: t.found, moved: t.moved, files: t.files, rate: t.rate.PerSecond()}
	for i, a := range t.active {
		if !a.since.After(since) {
			s.active = append(s.active, activeFile{i, *a})
		}
	}
	slices.SortFunc(s.active, func(x, y activeFile) int {
		return cmp.Or(x.since.Compare(y.since), cmp.Compare(x.item.From, y.item.From))
	})
	return s
}

// left estimates how long the rest takes, in whole seconds; 0 if it cannot.
func (s copyState) left() time.Duration {
	rest := s.found.Bytes - s.moved
	if !s.found.All || s.rate <= 0 || rest <= 0 {
		return 0
	}
	seconds := float64(rest) / float64(s.rate)
	const most = 1000 * time.Hour // more would not be believed
	if seconds > most.Seconds() {
		return 0
	}
	return time.Duration(seconds+1) * time.Second
}
