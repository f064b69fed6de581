// Package race reports whether the race detector runs, for tests that it makes slow, or whose
// allocations it adds to. Copy and Equal do for long data what the built-in copy and
// bytes.Equal do, with less of the detector's work, and Fewer makes a test shorter under it.
package race

import "bytes"

// step is how many bytes of a copy or a comparison the detector looks at one of.
const step = 8 << 10

// Copy copies as the built-in copy does. Tests that move much spend most of their time
// in the race detector, so here it looks at one byte in each 8 KiB, and at what is behind
// the last whole 8 KiB.
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

// Equal compares as [bytes.Equal] does; the detector looks at one byte in each 8 KiB.
func Equal(a, b []byte) bool {
	if !Enabled || len(a) != len(b) {
		return bytes.Equal(a, b)
	}
	for i := 0; i < len(a); i += step {
		if a[i] != b[i] {
			return false
		}
	}
	order := bytes.Compare(a, b) // which the detector does not see
	return order == 0
}

// Fewer returns n, or n/divisor, at least 1, if the detector runs: for a test that shows a
// bound by how much it does, where the code of fewer runs is the same.
func Fewer(n, divisor int) int {
	if Enabled {
		return max(1, n/divisor)
	}
	return n
}
