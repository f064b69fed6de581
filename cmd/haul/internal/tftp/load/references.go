package load

import (
	"hash/maphash"
	"sync"
)

// references remembers the content of the first download of each file, as the sum of the hashes of
// its blocks. The sum has 8 bytes for a file of any size, and does not depend on the order of the
// blocks.
type references struct {
	seed maphash.Seed
	mu   sync.Mutex
	sums map[reference]digest
}

// A reference identifies downloads that must have the same sum. It includes the block size, because
// blocks of another size have other hashes.
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

// block returns the hash of one block, to be added to the file's sum.
func (r *references) block(off int64, data []byte) uint64 {
	return scramble(maphash.Bytes(r.seed, data) + scramble(uint64(off)))
}

// compare reports whether a whole file equals the first download with the same reference.
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
