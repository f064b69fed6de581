package store

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"sync/atomic"
)

// memOverhead is the number of bytes charged for each file in addition to its data, for each
// directory, for each symbolic link in addition to its text, and for each further name of a file.
// Because of it, the limit also bounds the number of empty files.
const memOverhead = 512

const (
	// mapThreshold is the size, in bytes, from which a block's memory is mapped (mmap) rather than
	// allocated on the heap, if the system supports that. A mapping can grow without a copy, but
	// costs system calls and whole pages, which does not pay off for a small file.
	mapThreshold = 256 << 10

	// copyBelow is the size, in bytes, below which a finished file is moved from its mapping to the
	// heap, because the kernel allows a process only some 65,000 mappings.
	copyBelow = 16 << 10

	// uploadAhead is the most memory, in bytes, that an upload reserves in advance for the size
	// that it announced.
	uploadAhead = 64 << 10
)

// A budget bounds the memory of all blocks that share it.
type budget struct {
	limit int64        // most bytes that may be charged at the same time
	used  atomic.Int64 // bytes charged now; at most `limit`
}

// take charges n bytes. If that would exceed the limit, it charges nothing and returns ErrNoSpace.
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

// fits returns ErrNoSpace if a file of size bytes would not fit at the moment. It charges nothing.
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

// A block is the memory of one file. Its whole capacity, plus memOverhead, is charged to a budget.
// Memory of mapThreshold bytes or more is mapped, so that mremap can grow and shrink it without a
// copy. It is freed by the method free, or by the garbage collector once nothing refers to the
// block, so a reader that is never closed, or a store that is dropped, leaks nothing.
//
// A block is not safe for concurrent use. Do not keep a reference to its data without one to the
// block: the garbage collector does not keep mapped memory alive.
type block struct {
	*extent
	cleanup runtime.Cleanup
}

// An extent is the memory of a block and its charge. It is a separate struct because the argument
// of runtime.AddCleanup must not refer to the block: otherwise the block would stay reachable, and
// the cleanup would never run.
type extent struct {
	budget  *budget
	charged int64  // bytes that are charged to budget for this extent
	ahead   int64  // bytes to reserve at the first write, unless that write needs more
	data    []byte // the content of the file; the bytes between length and capacity are zeros
	mapped  bool   // the memory of data, up to its capacity, is mapped
}

// newUploadBlock returns an empty block for an upload that announces size bytes. It fails if these
// bytes would not fit now, but charges nothing for them until something is written, since a client
// can announce any size.
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

// newBlock returns an empty block with a capacity of size bytes; a negative size means 0.
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

// free frees the memory, and gives its charge back to the budget. The block must not be used
// afterwards.
func (b *block) free() {
	b.cleanup.Stop()
	b.release()
	runtime.KeepAlive(b) // otherwise the cleanup might run before Stop and release the extent a second time
}

func (x *extent) release() {
	if x.mapped {
		unmap(x.data)
	}
	x.data, x.mapped = nil, false
	x.budget.give(x.charged)
	x.charged = 0
}

// extend makes the file at least `end` bytes long. The added part is filled with zeros.
func (x *extent) extend(end int64) error {
	if end > int64(cap(x.data)) {
		if err := x.grow(end); err != nil {
			return err
		}
	}
	x.data = x.data[:max(int64(len(x.data)), end)]
	return nil
}

// cut shortens the file to size bytes, if it is longer.
func (x *extent) cut(size int64) {
	if size < int64(len(x.data)) {
		clear(x.data[size:])
		x.data = x.data[:size]
	}
}

// grow makes the capacity at least `end` bytes, or more if the limit allows. As each call may copy
// or move the data, grow first tries to double the capacity, then to add a quarter, and then to
// reserve the announced size.
func (x *extent) grow(end int64) error {
	had := int64(cap(x.data))
	for _, ahead := range [...]int64{2 * had, had + had/4, x.ahead} {
		if ahead > end && x.resize(ahead) == nil {
			return nil
		}
	}
	return x.resize(end)
}

// resize sets the capacity of data to `room` bytes, rounded up to whole pages if data is mapped.
// `room` is at least the length of data.
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

// move sets the capacity of data to `room` bytes, in mapped memory if toMap is set. It copies
// nothing if data is mapped before and after.
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

// fit frees the capacity that a finished file does not need.
func (x *extent) fit() {
	size := int64(len(x.data))
	toMap := x.mapped && size >= copyBelow
	if toMap {
		size = wholePages(size)
	}
	spare := int64(cap(x.data)) - size
	if spare == 0 || x.move(int(size), toMap) != nil {
		return // the capacity stays as it is, and stays charged
	}
	x.budget.give(spare)
	x.charged -= spare
}

// wholePages rounds n up to a multiple of the page size.
func wholePages(n int64) int64 {
	page := int64(os.Getpagesize())
	return (n + page - 1) / page * page
}
