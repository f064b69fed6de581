package tftp

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
)

// A client that drops packets out of order receives the file nevertheless, in more packets.
func TestNoReorder(t *testing.T) {
	inWorld(t, func(w *simWorld, _ *Config) {
		w.net.Default = sim.Link{Latency: time.Millisecond, Loss: 0.02}
	}, func(w *simWorld) {
		want := w.put("image", 8_000_000)
		// The client counts them, because the server may send more after the client has everything.
		var blocks atomic.Int64
		w.net.Tap = func(p sim.Packet) bool {
			if transfer.OpcodeOf(p.Data) == transfer.Data {
				blocks.Add(1)
			}
			return true
		}
		get := func(drops bool) int64 {
			c, here := w.client(), store.Mem(0)
			c.Window, c.NoReorder = 64, drops
			before := blocks.Load()
			if _, err := c.Get(context.Background(), target("image"), tftptest.Into(here, "image")); err != nil {
				t.Fatal(err)
			}
			tftptest.WantFile(t, here, "image", want)
			return blocks.Load() - before
		}
		kept, dropped := get(false), get(true)
		if dropped < kept+kept/4 {
			t.Errorf("%d blocks, and %d where they are dropped out of order", kept, dropped)
		}
	})
}
