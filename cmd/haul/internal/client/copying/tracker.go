package copying

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/store/treecopy"
)

// unknownSize is the size of an item whose size is not known before its copy begins.
const unknownSize = -1

// A tracker counts the progress of a copy. The code that transfers files calls its methods; for
// trees, the hooks of a treecopy.Job do that. Its methods allocate no memory for a file that is
// already active.
type tracker struct {
	mu    sync.Mutex
	found treecopy.Totals // files and bytes to copy, as far as they are known; guarded by mu
	moved int64           // bytes in the target, including those of earlier copies; guarded by mu
	files int64           // number of completed files; guarded by mu
	// unsized is the number of files whose size is still unknown; guarded by mu. The method expect
	// sets it, and the methods movedTo and ended decrement it.
	unsized int
	active  map[*treecopy.Item]*underWay // files that are being copied; guarded by mu
	rate    console.RateMeter            // measures how fast `moved` grows; guarded by mu
}

// An underWay is the state of a file that is being copied.
type underWay struct {
	since       time.Time
	moved, size int64 // in bytes; size is 0 if it is unknown
}

// setFound sets the number of files and bytes to copy.
func (t *tracker) setFound(found treecopy.Totals) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.found = found
}

// expect sets the number of files to copy. Use it if the sizes of the files are not known yet.
func (t *tracker) expect(files int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.found, t.unsized = treecopy.Totals{Files: int64(files)}, files
}

// started records that the copy of a file has begun.
func (t *tracker) started(i *treecopy.Item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.active[i] = &underWay{since: time.Now(), size: max(i.Size, 0)}
}

// progressed records that n more bytes of a file have been copied.
func (t *tracker) progressed(i *treecopy.Item, n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moved += n
	if a := t.active[i]; a != nil {
		a.moved += n
	}
}

// movedTo sets how many bytes of a file have been copied, and the file's size if it is now known
// for the first time.
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

// sized records the size of a file whose size was unknown. The caller holds mu.
func (t *tracker) sized(size int64) {
	t.found.Bytes += size
	t.unsized--
	t.found.All = t.unsized == 0
}

// ended records that the copy of an entry has ended; the entry need not have been started. It
// returns how long the copy took.
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
		// If a file was skipped or failed, count the rest of its bytes as moved too, because they
		// do not remain to be copied.
		t.moved += max(a.size-a.moved, 0)
	} else if i.Type == 0 {
		t.moved += max(i.Size, 0)
	}
	delete(t.active, i)
	return took
}

// A copyState is the state of a copy at one moment.
type copyState struct {
	found  treecopy.Totals
	moved  int64
	files  int64
	rate   int64        // bytes per second
	active []activeFile // files that are being copied, the one that began first at the front
}

// An activeFile is a file that is being copied at the time of a [copyState].
type activeFile struct {
	item *treecopy.Item
	underWay
}

// state returns the state at the time `now`. Its list of active files omits the files whose copy
// began after the time `since`.
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

// left estimates the remaining time, in whole seconds. If an estimate is not possible, it returns
// 0.
func (s copyState) left() time.Duration {
	rest := s.found.Bytes - s.moved
	if !s.found.All || s.rate <= 0 || rest <= 0 {
		return 0
	}
	seconds := float64(rest) / float64(s.rate)
	const most = 1000 * time.Hour // a longer estimate would not be credible
	if seconds > most.Seconds() {
		return 0
	}
	return time.Duration(seconds+1) * time.Second
}
