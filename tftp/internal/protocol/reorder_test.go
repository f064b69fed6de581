package protocol

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// Keeping blocks out of order is worthwhile: if packets are lost or reordered, a receiver that
// drops them makes the sender send far more again, and takes longer.
func TestKeepingOutOfOrder(t *testing.T) {
	for name, f := range map[string]faults{
		"1 % lost":          {bandwidth: 12_500_000, delay: 240 * time.Microsecond, loss: 0.01},
		"1 % out of order":  {bandwidth: 12_500_000, delay: 240 * time.Microsecond, reorder: 0.01},
		"10 ms, 0.1 % lost": {bandwidth: 4_000_000, delay: 5 * time.Millisecond, loss: 0.001},
	} {
		run := func(drops bool) (resent int64, took time.Duration) {
			w := &world{rng: rand.New(rand.NewPCG(1, 2)), f: f, size: 4_000_000, noReorder: drops}
			w.req = transfer.Request{Name: "f", Offer: transfer.Options{BlockSize: testBlock, Window: 64}}
			w.run()
			if w.problem != "" {
				t.Fatalf("%s, drops %v: %s", name, drops, w.problem)
			}
			return w.s.Stats().Resent, w.s.lastWord.Sub(w.base)
		}
		kept, fast := run(false)
		dropped, slow := run(true)
		t.Logf("%s: %d blocks sent again in %v; %d in %v where they are dropped", name, kept, fast, dropped, slow)
		if dropped < 4*kept || slow <= fast {
			t.Errorf("%s: %d blocks sent again in %v, and %d in %v where they are dropped", name, kept, fast, dropped, slow)
		}
	}
}
