//go:build !haul_portable

package store

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// canMap says that memory can grow by mremap, which moves page tables and copies no bytes.
const canMap = true

// hugeAbove is the size, in bytes, from which mappings ask for huge pages: faulting memory in by 4
// KiB takes longer than filling it. No page reaches beyond a mapping, so the charge still bounds
// the use.
const hugeAbove = 4 << 20

// adviseHuge asks for huge pages if b is large enough. The kernel may ignore that.
func adviseHuge(b []byte) []byte {
	if len(b) >= hugeAbove {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	}
	return b
}

// mapMemory returns n zero bytes. The kernel provides each page when it is first written.
func mapMemory(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("%w: mmap of %d bytes: %w", ErrNoSpace, n, err)
	}
	return adviseHuge(b), nil
}

// remap sets the capacity of the mapping that starts at b to n. The mapping may move; do not use b
// afterwards.
func remap(b []byte, n int) ([]byte, error) {
	b, err := unix.Mremap(b[:cap(b)], n, unix.MREMAP_MAYMOVE)
	if err != nil {
		return nil, fmt.Errorf("%w: mremap to %d bytes: %w", ErrNoSpace, n, err)
	}
	return adviseHuge(b), nil
}

// unmap removes the mapping that starts at b.
func unmap(b []byte) {
	if err := unix.Munmap(b[:cap(b)]); err != nil {
		panic("store: munmap: " + err.Error()) // a bug: b is not one of our mappings
	}
}
