package store

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"sync/atomic"
)

// memOverhead is the charge, in bytes, for a file in addition to its data, for a directory, for a
// symbolic link in addition to its text, and for each further name of a file. Because of it, the
// limit also bounds the number of empty files.
const memOverhead = 512

const (
	// mapThreshold is the size, in bytes, from which memory is mapped rather than allocated, where
	// that is possible. A mapping grows without a copy, but costs system calls and whole pages,
	// which is not worth it for a small file.
	mapThreshold = 256 << 10

	// copyBelow is the size, in bytes, below which a finished file is moved from its mapping to the
	// heap. The kernel allows a process some 65,000 mappings.
	copyBelow = 16 << 10

	// uploadAhead bounds the room, in bytes, that an upload reserves beyond its data for a size
	// that it has only announced.
	uploadAhead = 64 << 10
)

// A budget bounds the memory of all blocks that share it.
type budget struct {
	limit int64        // bytes
	used  atomic.Int64 // bytes, at most limit
}

// take charges n bytes, or returns ErrNoSpace.
func (b *budget) take(n int64) error {
	for {
		used := b.used.Load()
		if n > b.limit-used {
			return b.full()
		}
		if b.used.CompareAndSwap(used, used+n) {
			return nil
		}
	}
}

// fits returns ErrNoSpace if a file of size bytes does not fit now.
func (b *budget) fits(size int64) error {
	if size > b.limit-b.used.Load()-memOverhead {
		return b.full()
	}
	return nil
}

func (b *budget) give(n int64) { b.used.Add(-n) }

func (b *budget) full() error {
	return fmt.Errorf("%w: limit of %d bytes reached", ErrNoSpace, b.limit)
}

// A block is the memory of one file, charged to a budget: memOverhead and its whole capacity. Above
// mapThreshold it is mapped, where mremap can grow and shrink it without a copy. It is freed by
// free, or by the garbage collector once nothing refers to it; so a reader that is never closed and
// a store that is dropped leak nothing.
//
// A block is not safe for concurrent use. Keep only the block, never its data, since the garbage
// collector does not manage mapped memory.
type block struct {
	*extent
	cleanup runtime.Cleanup
}

// An extent is the memory that a block has to give back. It is a separate struct because the
// argument of runtime.AddCleanup must not refer to the block: the block would stay reachable, and
// the cleanup would never run.
type extent struct {
	budget  *budget
	charged int64  // bytes taken from budget
	ahead   int64  // room to reserve at the first write, if that needs less
	data    []byte // the file; zeros between its length and its capacity
	mapped  bool   // data is mapped, up to its capacity
}

// newUploadBlock returns an empty block for an upload that announces size bytes. They have to fit,
// but nothing is charged for them until something is written, since anyone can announce any size.
func newUploadBlock(b *budget, size int64) (*block, error) {
	if err := b.fits(size); err != nil {
		return nil, err
	}
	bl, err := newBlock(b, 0)
	if err == nil {
		bl.ahead = min(size, uploadAhead)
	}
	return bl, err
}

// newBlock returns an empty block with room for size bytes; a negative size means 0.
func newBlock(b *budget, size int64) (*block, error) {
	x := &extent{budget: b}
	if err := b.take(memOverhead); err != nil {
		return nil, err
	}
	x.charged = memOverhead
	if err := x.resize(max(size, 0)); err != nil {
		x.release()
		return nil, err
	}
	bl := &block{extent: x}
	bl.cleanup = runtime.AddCleanup(bl, (*extent).release, x)
	return bl, nil
}

// free gives the memory back. The block must not be used afterwards.
func (b *block) free() {
	b.cleanup.Stop()
	b.release()
	runtime.KeepAlive(b) // otherwise the cleanup might run before Stop, and release the extent a second time
}

func (x *extent) release() {
	if x.mapped {
		unmap(x.data)
	}
	x.data, x.mapped = nil, false
	x.budget.give(x.charged)
	x.charged = 0
}

// extend makes the file at least end bytes long, and fills the new part with zeros.
func (x *extent) extend(end int64) error {
	if end > int64(cap(x.data)) {
		if err := x.grow(end); err != nil {
			return err
		}
	}
	x.data = x.data[:max(int64(len(x.data)), end)]
	return nil
}

// cut makes the file at most size bytes long.
func (x *extent) cut(size int64) {
	if size < int64(len(x.data)) {
		clear(x.data[size:])
		x.data = x.data[:size]
	}
}

// grow makes room for end bytes, and for more if the limit allows. Each step copies or moves the
// data, so grow doubles the room, or adds a quarter if twice the room does not fit. The first time
// it reserves the announced size.
func (x *extent) grow(end int64) error {
	had := int64(cap(x.data))
	for _, ahead := range [...]int64{2 * had, had + had/4, x.ahead} {
		if ahead > end && x.resize(ahead) == nil {
			return nil
		}
	}
	return x.resize(end)
}

// resize sets the capacity of data to room, rounded up to pages if it is mapped. room is at least
// the length.
func (x *extent) resize(room int64) error {
	if room > x.budget.limit || room > math.MaxInt-int64(os.Getpagesize()) {
		return x.budget.full()
	}
	toMap := canMap && room >= mapThreshold || x.mapped
	if toMap {
		room = wholePages(room)
	}
	more := room - int64(cap(x.data))
	if err := x.budget.take(more); err != nil {
		return err
	}
	if err := x.move(int(room), toMap); err != nil {
		x.budget.give(more)
		return err
	}
	x.charged += more
	return nil
}

// move sets the capacity of data. It copies nothing if data is mapped and stays so.
func (x *extent) move(room int, toMap bool) error {
	switch {
	case !toMap:
		data := make([]byte, len(x.data), room)
		copy(data, x.data)
		if x.mapped {
			unmap(x.data)
		}
		x.data = data
	case x.mapped:
		data, err := remap(x.data, room)
		if err != nil {
			return err
		}
		x.data = data[:len(x.data)]
	default:
		data, err := mapMemory(room)
		if err != nil {
			return err
		}
		x.data = data[:copy(data, x.data)]
	}
	x.mapped = toMap
	return nil
}

// fit gives back the room that a finished file does not need.
func (x *extent) fit() {
	size := int64(len(x.data))
	toMap := x.mapped && size >= copyBelow
	if toMap {
		size = wholePages(size)
	}
	spare := int64(cap(x.data)) - size
	if spare == 0 || x.move(int(size), toMap) != nil {
		return // the room stays, and is still charged
	}
	x.budget.give(spare)
	x.charged -= spare
}

// wholePages rounds n up to a multiple of the page size.
func wholePages(n int64) int64 {
	page := int64(os.Getpagesize())
	return (n + page - 1) / page * page
}
