package load

import (
	"hash/maphash"
	"sync"
)

// references remembers what the first download of each file was: a sum of
// hashes of its blocks, which takes 8 bytes for a file of any size, and is the
// same for any order of the blocks.
type references struct {
	seed maphash.Seed
	mu   sync.Mutex
	sums map[reference]digest
}

// A reference distinguishes downloads that may differ: blocks of another size
// have other hashes.
type reference struct {
	name  int64
	block int
}

type digest struct {
	sum  uint64
	size int64
}

func newReferences() *references {
	return &references{seed: maphash.MakeSeed(), sums: make(map[reference]digest)}
}

// block returns what one block adds to a file's sum.
func (r *references) block(off int64, data []byte) uint64 {
	return scramble(maphash.Bytes(r.seed, data) + scramble(uint64(off)))
}

// compare reports whether a whole file is as the first of its name was.
func (r *references) compare(k reference, c digest) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	want, ok := r.sums[k]
	if !ok {
		r.sums[k] = c
		return true
	}
	return c == want
}
