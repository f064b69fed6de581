//go:build !haul_portable

package store

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// canMap says that memory can grow by mremap, which moves page tables and no
// bytes.
const canMap = true

// hugeAbove is the size from which on mappings ask for huge pages: to fault
// memory in by 4 KiB takes longer than to fill it. No page reaches beyond a
// mapping, so what is charged still bounds what is used.
const hugeAbove = 4 << 20

// adviseHuge asks for huge pages if b is large enough. The kernel need not care.
func adviseHuge(b []byte) []byte {
	if len(b) >= hugeAbove {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE)
	}
	return b
}

// mapMemory returns n bytes of zeros. The kernel provides each page when it is
// first written.
func mapMemory(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("%w: mmap of %d bytes: %w", ErrNoSpace, n, err)
	}
	return adviseHuge(b), nil
}

// remap gives the mapping that b begins the capacity n. It may move; b is
// void then.
func remap(b []byte, n int) ([]byte, error) {
	b, err := unix.Mremap(b[:cap(b)], n, unix.MREMAP_MAYMOVE)
	if err != nil {
		return nil, fmt.Errorf("%w: mremap to %d bytes: %w", ErrNoSpace, n, err)
	}
	return adviseHuge(b), nil
}

// unmap ends the mapping that b begins.
func unmap(b []byte) {
	if err := unix.Munmap(b[:cap(b)]); err != nil {
		panic("store: munmap: " + err.Error()) // not a mapping of ours: a bug here
	}
}
