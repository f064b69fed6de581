package tftp

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/tftptest"
)

// If its own program or the machine delays a client past a deadline, it first handles the packets
// that have arrived meanwhile, before it treats any packet as lost.
func TestLateClientRepeatsNothing(t *testing.T) {
	for _, window := range []int{1, 8} {
		inWorld(t, func(w *simWorld, _ *Config) { w.net.Default = sim.Link{Latency: time.Millisecond} }, func(w *simWorld) {
			want, here := w.put("down", 100_000), store.Mem(0)
			late := func() *simClient {
				c, slept := w.client(), false
				c.Window = window
				c.Progress = func(n, _ int64) {
					if n > 0 && n < int64(len(want)) && !slept {
						slept = true
						time.Sleep(900 * time.Millisecond) // shorter than the time after which the server gives up
					}
				}
				return c
			}
			res, err := late().Put(context.Background(), target("up"), bytes.NewReader(want), int64(len(want)))
			if err != nil || res.Stats.Timeouts > 0 {
				t.Errorf("put, window %d: %d timeouts, %v", window, res.Stats.Timeouts, err)
			}
			res, err = late().Get(context.Background(), target("down"), tftptest.Into(here, "down"))
			if err != nil || res.Stats.Timeouts > 0 {
				t.Errorf("get, window %d: %d timeouts, %v", window, res.Stats.Timeouts, err)
			}
		})
	}
}
