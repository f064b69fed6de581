//go:build !race

package load

import (
	"runtime"
	"testing"

	"github.com/haul-project/haul/tftp/transfer"
)

// Packets cause no allocations: with twice as many packets, there are no more allocations.
func TestAllocs(t *testing.T) {
	for _, l := range []Load{
		{Pattern: true},
		{},
		{BlockSize: transfer.DefaultBlockSize, Window: 8},
	} {
		mallocs := func(size int64) uint64 {
			l.Target = serve(t, content(t, size))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r := finish(t, l)
			runtime.ReadMemStats(&after)
			wantAll(t, r, 1, size)
			return after.Mallocs - before.Mallocs
		}
		const packets = 4000
		mallocs(1000)
		few, many := mallocs(512*10), mallocs(512*packets)
		if many > few+packets/10 {
			t.Errorf("window %d: %d allocations for 10 packets, %d for %d", l.Window, few, many, packets)
		}
	}
}
