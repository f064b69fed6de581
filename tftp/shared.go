package tftp

import "github.com/haul-project/haul/store"

// When a rack boots, all its machines read the same files at nearly the same time. So data that one
// lock-step transfer has read is kept for the other transfers of its shard. The data stays in the
// processor's cache, and all transfers need only one buffer.
const (
	chunkSize = 16 << 10 // bytes read at once
	maxChunks = 16       // chunks kept of one file; the offset of a chunk determines its index

	// Readers at many different offsets displace each other's chunks. So the benefit is checked
	// after every trialFills chunks that were read. If on average fewer than minUses reads used
	// each of them, the next sharePause reads do not share.
	minUses    = 4
	trialFills = 64
	sharePause = 1 << 10
)

// A sharedCache holds parts of a file that several transfers of one shard read.
type sharedCache struct {
	id      store.Identity
	readers int
	chunks  []chunk   // nil before there are two readers
	cost    int64     // bytes of memory taken for chunks
	one     [1][]byte // argument of TryReadAt, kept to avoid an allocation

	fills, uses int // in the current trial: chunks read from the file, and reads answered from chunks
	pause       int // how many of the next reads do not share
}

// A chunk is a piece of a file. It has chunkSize bytes, unless the file ends there or the rest was
// not in memory.
type chunk struct {
	buf   []byte
	index int64 // offset / chunkSize
	n     int   // bytes of buf that hold content
	turn  int64 // turn of the shard in which the bytes were read
}

// join makes a reading share data with other readings of the same file.
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

// leave ends the sharing. The last reading that leaves frees the shared data.
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

// readShared fills p with shared data of the file from off on. It reports false if that data is not
// available.
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

// chunkAt returns the content from off to the end of its chunk. It returns nil unless `want` bytes,
// or all bytes up to the chunk's end if those are fewer, are available without waiting.
func (r *reading) chunkAt(c *sharedCache, off int64, want int) []byte {
	index, at := off/chunkSize, int(off%chunkSize)
	want = min(want, chunkSize-at)
	if c.chunks == nil {
		c.chunks = make([]chunk, maxChunks)
	}
	k := &c.chunks[index%maxChunks]
	// Data that was read before r opened the file must not be used for r. The file may have changed
	// without a new identity: by a write through a mapping, or by two writes within one tick of the
	// file system's clock.
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
	k.n = 0 // in case reading panics
	// On an error, k.n is too small, and the caller reads the file without sharing.
	k.n, _ = r.try.TryReadAt(c.one[:], index*chunkSize)
	k.index, k.turn = index, r.shard.turns.Load()
	c.countFill()
	if k.n < at+want {
		return nil
	}
	return k.buf[at:k.n]
}

// countFill counts a chunk that was read, and pauses sharing if too few reads have used the chunks
// of a trial.
func (c *sharedCache) countFill() {
	if c.fills++; c.fills < trialFills {
		return
	}
	if c.uses < minUses*c.fills {
		c.pause = sharePause
	}
	c.fills, c.uses = 0, 0
}
