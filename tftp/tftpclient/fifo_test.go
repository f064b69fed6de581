package tftpclient

import (
	"math/rand/v2"
	"testing"
)

// A fifo returns its items in order, and does not grow with the number of items that have passed.
func TestFIFO(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var q fifo[int]
	var want []int
	for i := range 10_000 {
		switch {
		case random.IntN(2) == 0 && len(want) < 100:
			q.push(i)
			want = append(want, i)
		case random.IntN(10) == 0:
			q.pushFirst(i)
			want = append([]int{i}, want...)
		case len(want) > 0:
			first := *q.first()
			if got := q.pop(); got != want[0] || first != want[0] {
				t.Fatalf("%d and %d, want %d", got, first, want[0])
			}
			want = want[1:]
		}
		if q.len() != len(want) {
			t.Fatalf("%d items, want %d", q.len(), len(want))
		}
	}
	if cap(q.items) > 2000 {
		t.Errorf("room for %d items", cap(q.items))
	}
}
