// Package race reports whether the race detector runs. It is for tests that the detector slows
// down, or whose allocations it increases. Copy and Equal do the same as the built-in copy and
// bytes.Equal, with less work for the detector on long data. Fewer makes a test shorter under the
// detector.
package race

import "bytes"

// step is the number of bytes, in a copy or a comparison, of which the detector checks one.
const step = 8 << 10

// Copy copies as the built-in copy does. Tests that move much data spend most of their time in the
// race detector, so in Copy it checks only one byte in each 8 KiB, and the bytes after the last
// whole 8 KiB.
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

// Equal compares as [bytes.Equal] does, but the detector checks only one byte in each 8 KiB.
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

// Fewer returns n or, if the detector runs, n/divisor, but at least 1. It is for tests that repeat
// the same code many times to show a bound.
func Fewer(n, divisor int) int {
	if Enabled {
		return max(1, n/divisor)
	}
	return n
}
