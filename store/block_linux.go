//go:build !haul_portable

package store

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// canMap says that mapped memory is supported. mremap grows a mapping by moving page tables,
// without copying any bytes.
const canMap = true

// hugeAbove is the size, in bytes, from which a mapping asks for huge pages, because faulting
// memory in by pages of 4 KiB takes longer than filling it. A huge page never extends beyond the
// mapping, so the charged size still bounds the memory used.
const hugeAbove = 4 << 20

// adviseHuge asks the kernel to use huge pages for b if b is large enough. The kernel may ignore
// the request, so an error is ignored.
func adviseHuge(b []byte) []byte {
	if len(b) >= hugeAbove {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	}
	return b
}

// mapMemory maps n bytes of zeros. The kernel allocates each page when it is first written.
func mapMemory(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("%w: mmap of %d bytes: %w", ErrNoSpace, n, err)
	}
	return adviseHuge(b), nil
}

// remap sets the capacity of the mapping that starts at b to n bytes. The mapping may move: do not
// use b afterwards.
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
		panic("store: munmap: " + err.Error()) // only a bug can cause this: b is not one of our mappings
	}
}
