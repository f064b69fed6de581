package protocol

import (
	"fmt"
	"testing"

	"github.com/haul-project/haul/internal/repeat"
)

// simBugs has seeds that once found a bug.
var simBugs = []uint64{}

func TestSim(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	seeds := simBugs
	first := uint64(1)
	for i := range uint64(*simSeeds) {
		seeds = append(seeds, first+i)
	}
	if *simSeed != 0 {
		seeds = []uint64{*simSeed}
	}
	failed := 0
	for _, seed := range seeds {
		w := randomWorld(seed)
		w.run()
		if w.problem != "" {
			t.Errorf("seed %d: %s\nfaults %+v, request %+v, limits %+v, size %d, client sends %v, old server %v\nrepeat it with: %s",
				seed, w.problem, w.f, w.req, w.limits, w.size, w.client, w.oldServer, repeat.Command(t.Name(), fmt.Sprintf("-seed=%d", seed)))
			if failed++; failed > 5 {
				t.Fatal("and more")
			}
		}
	}
}
