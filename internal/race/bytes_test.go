package race

import (
	"bytes"
	"testing"
)

// Copy and Equal process each byte, including the bytes that the race detector does not check. The
// data is shorter or longer than a step, and the two slices may have different lengths.
func TestCopyAndEqual(t *testing.T) {
	for _, n := range []int{0, 1, step - 1, step, step + 1, 3*step + 7} {
		from, to := bytes.Repeat([]byte{7}, n), make([]byte, n+1)
		if copied := Copy(to, from); copied != n || !Equal(to[:n], from) || to[n] != 0 {
			t.Errorf("%d bytes to more: %d are copied, or others", n, copied)
		}
		if copied := Copy(to[:n/2], from); copied != n/2 {
			t.Errorf("%d bytes to fewer: %d are copied", n, copied)
		}
		if Equal(to, from) || Equal(from, to) {
			t.Errorf("%d bytes are equal to one more", n)
		}
		for _, at := range []int{0, n / 2, n - 1} {
			if n > 0 {
				to[at]++
				if Equal(to[:n], from) {
					t.Errorf("of %d bytes that at %d differs, and they are equal", n, at)
				}
				to[at]--
			}
		}
	}
}
