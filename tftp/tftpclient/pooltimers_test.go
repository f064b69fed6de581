package tftpclient

import (
	"math/rand/v2"
	"testing"
	"time"
)

// The heap returns transfers in the order of their times, after any changes.
func TestPoolTimers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h poolTimers
	at := map[*poolTransfer]time.Duration{}
	for range 2000 {
		switch random.IntN(4) {
		case 0, 1:
			k := &poolTransfer{}
			at[k] = time.Duration(random.IntN(1000))
			h.set(k, at[k])
			h.set(k, at[k]+5) // a later time changes nothing
		case 2:
			if k, _ := h.first(); k != nil {
				at[k] += time.Duration(random.IntN(1000))
				h.postpone(k, at[k])
			}
		case 3:
			for k := range at {
				h.remove(k)
				h.remove(k)
				delete(at, k)
				break
			}
		}
		var want time.Duration
		if len(at) > 0 {
			first := time.Duration(1 << 62)
			for _, d := range at {
				first = min(first, d)
			}
			want = first
		}
		if k, got := h.first(); got != want || (k == nil) != (len(at) == 0) {
			t.Fatalf("first is %v, want %v of %d", got, want, len(at))
		}
	}
}
