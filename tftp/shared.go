package tftp

import "github.com/haul-project/haul/store"

// When a rack boots, all of it reads the same files at nearly the same time.
// Data that one transfer in lock-step has read is then kept for the others of
// its shard: it stays in the processor's cache, and costs one buffer for all of
// them instead of one each.
const (
	chunkSize = 16 << 10 // bytes read at once
	maxChunks = 16       // kept of one file, each in the place its offset gives it

	// Readers at many different places would push out each other's chunks. If
	// fewer than minUses blocks are taken from one on the average, over
	// trialFills of them, each transfer reads for itself for the next
	// sharePause times.
	minUses    = 4
	trialFills = 64
	sharePause = 1 << 10
)

// A sharedCache is a file that transfers of one shard read.
type sharedCache struct {
	id      store.Identity
	readers int
	chunks  []chunk   // none before there are two readers
	cost    int64     // in bytes of memory
	one     [1][]byte // for TryReadAt

	fills, uses int // in the present trial
	pause       int // how often nothing is shared
}

// A chunk is a piece of a file, all of chunkSize unless the file ends there or
// the rest was not in memory.
type chunk struct {
	buf   []byte
	index int64 // offset / chunkSize
	n     int   // bytes of buf that hold content
	turn  int64 // of the shard's, in which they were read
}

// join has a reading share what others read of its file.
func (r *reading) join() {
	if r.identity == (store.Identity{}) || r.try == nil {
		return
	}
	sh := r.shard
	c := sh.shared[r.identity]
	if c == nil {
		c = &sharedCache{id: r.identity}
		sh.shared[r.identity] = c
	}
	c.readers++
	r.shared, r.joined = c, sh.turns.Load()
}

// leave ends that.
func (r *reading) leave() {
	c := r.shared
	if c == nil {
		return
	}
	r.shared = nil
	if c.readers--; c.readers == 0 {
		delete(r.shard.shared, c.id)
		r.shard.memory.release(&c.cost)
	}
}

// readShared fills p with the bytes at off from what the readers of the file
// share. It reports false if they are not to be had in this way.
func (r *reading) readShared(p []byte, off int64) bool {
	c := r.shared
	if c == nil || c.readers < 2 {
		return false
	}
	if c.pause > 0 {
		c.pause--
		return false
	}
	for len(p) > 0 {
		have := r.chunkAt(c, off, len(p))
		if len(have) == 0 {
			return false
		}
		n := copy(p, have)
		p, off = p[n:], off+int64(n)
	}
	c.uses++
	return true
}

// chunkAt returns the content from off to the end of its chunk, nothing if want
// bytes, or those up to the chunk's end, cannot be had without waiting.
func (r *reading) chunkAt(c *sharedCache, off int64, want int) []byte {
	index, at := off/chunkSize, int(off%chunkSize)
	want = min(want, chunkSize-at)
	if c.chunks == nil {
		c.chunks = make([]chunk, maxChunks)
	}
	k := &c.chunks[index%maxChunks]
	// Data read before r opened the file is not for r: a write through a
	// mapping, or two within a tick of the file system's clock, leave the
	// file's identity as it is.
	if k.index == index && k.turn >= r.joined && k.n >= at+want {
		return k.buf[at:k.n]
	}
	if k.buf == nil {
		cost := c.cost
		if m := &r.shard.memory; m.isScarce() || !m.take(&cost, cost+chunkSize) {
			return nil
		}
		c.cost, k.buf = cost, make([]byte, chunkSize)
	}
	c.one[0] = k.buf
	k.n = 0                                             // in case that reading panics
	k.n, _ = r.try.TryReadAt(c.one[:], index*chunkSize) // what it cannot read is asked for again
	k.index, k.turn = index, r.shard.turns.Load()
	c.countFill()
	if k.n < at+want {
		return nil
	}
	return k.buf[at:k.n]
}

// countFill counts a chunk read, and pauses sharing if it does not pay.
func (c *sharedCache) countFill() {
	if c.fills++; c.fills < trialFills {
		return
	}
	if c.uses < minUses*c.fills {
		c.pause = sharePause
	}
	c.fills, c.uses = 0, 0
}
