// Package race reports whether the race detector is enabled. It is for tests that the detector slows
// down, or whose allocations it increases. Copy and Equal do the same as the built-in copy and
// bytes.Equal, with less work for the detector on long data. Fewer makes a test shorter if the
// detector is enabled.
package race

import "bytes"

// step is the size of the pieces of a copy or a comparison, in bytes. The detector checks only the
// first byte of each.
const step = 8 << 10

// Copy does the same as the built-in copy. Tests that move much data spend most of their time in the
// race detector. So in Copy the detector checks only one byte in each 8 KiB, and the bytes after the
// last whole 8 KiB.
func Copy(to, from []byte) int {
	if !Enabled {
		return copy(to, from)
	}
	n := min(len(to), len(from))
	to, from = to[:n], from[:n]
	for len(from) >= step {
		to[0] = from[0]
		copyUnseen((*[step]byte)(to), (*[step]byte)(from))
		to, from = to[step:], from[step:]
	}
	copy(to, from)
	return n
}

//go:norace
func copyUnseen(to, from *[step]byte) { *to = *from }

// Equal does the same as [bytes.Equal], but the detector checks only one byte in each 8 KiB.
func Equal(a, b []byte) bool {
	if !Enabled || len(a) != len(b) {
		return bytes.Equal(a, b)
	}
	for i := 0; i < len(a); i += step {
		if a[i] != b[i] {
			return false
		}
	}
	order := bytes.Compare(a, b) // the detector does not see bytes.Compare
	return order == 0
}

// Fewer returns n. If the detector is enabled, it returns n/divisor instead, but at least 1. It is
// for tests that repeat the same code many times to check a bound.
func Fewer(n, divisor int) int {
	if Enabled {
		return max(1, n/divisor)
	}
	return n
}
