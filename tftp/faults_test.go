package tftp

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/tftpclient"
	"github.com/haul-project/haul/tftp/transfer"
)

// Many files that are transferred at the same time in both directions arrive unchanged, over
// networks that lose, duplicate and reorder packets.
func TestFaultyNetworks(t *testing.T) {
	networks := map[string]sim.Link{
		"perfect":    {},
		"far":        {Latency: 50 * time.Millisecond},
		"lossy":      {Latency: time.Millisecond, Loss: 0.05},
		"repeating":  {Latency: time.Millisecond, Duplicate: 0.2},
		"reordering": {Latency: time.Millisecond, Jitter: time.Millisecond, Reorder: 0.1},
		"slow":       {Latency: 2 * time.Millisecond, Rate: 1 << 20},
		"all":        {Latency: 3 * time.Millisecond, Jitter: 2 * time.Millisecond, Rate: 4 << 20, Loss: 0.02, Duplicate: 0.02, Reorder: 0.05},
	}
	for name, link := range networks {
		for _, glue := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/glue=%v", name, glue), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, 7)
					w.net.Default = link
					w.net.Glue = glue
					w.start(nil)
					moveMany(w)
					w.end()
				})
			})
		}
	}
}

// moveMany fetches and sends files of many sizes with many options at once.
func moveMany(w *simWorld) {
	here := store.Mem(1 << 30)
	clients := []*tftpclient.Client{
		{NoOptions: true},
		{BlockSize: 512, Window: 1},
		{BlockSize: 700, Window: 4, Rollover: transfer.RolloverOne},
		{BlockSize: 1428, Window: 64, Timeout: time.Second},
		{BlockSize: 60000, Window: 3},
	}
	sizes := []int{0, 1, 511, 512, 513, 1428 * 64, 200_000}
	var wg sync.WaitGroup
	for i, c := range clients {
		c := &simClient{c, w.opener(clientIP)}
		for _, size := range sizes {
			name := fmt.Sprintf("%d-%d", i, size)
			want := w.put("down/"+name, size)
			wg.Go(func() {
				res, err := c.Get(context.Background(), target("down/"+name), tftptest.Into(here, name))
				if err != nil || res.Bytes != int64(size) {
					w.t.Errorf("get %s: %d bytes, %v", name, res.Bytes, err)
					return
				}
				tftptest.WantFile(w.t, here, name, want)
			})
			wg.Go(func() {
				res, err := c.Put(context.Background(), target("up/"+name), bytes.NewReader(want), int64(size))
				if err != nil || res.Bytes != int64(size) {
					w.t.Errorf("put %s: %d bytes, %v", name, res.Bytes, err)
					return
				}
				tftptest.WantFile(w.t, w.mem, "up/"+name, want)
			})
		}
	}
	wg.Wait()
	for _, c := range clients {
		c.Wait()
	}
	if n := w.net.Host(clientIP).Open(); n != 0 {
		w.t.Errorf("%d client sockets left open", n)
	}
}

// TestThousandsOfTransfers runs thousands of transfers in one process, most of them at the same
// time.
func TestThousandsOfTransfers(t *testing.T) {
	transfers := 2000
	if race.Enabled {
		transfers = 500
	}
	inWorld(t, func(w *simWorld, s *Config) {
		w.net.Default = sim.Link{Latency: 5 * time.Millisecond, Loss: 0.01}
	}, func(w *simWorld) {
		want := w.put("image", 20_000)
		here := store.Mem(1 << 30)
		c := w.client()
		c.Window = 1
		var wg sync.WaitGroup
		for i := range transfers {
			wg.Go(func() {
				name := fmt.Sprint(i)
				var err error
				if i%4 == 0 {
					_, err = c.Put(context.Background(), target(name), bytes.NewReader(want), int64(len(want)))
				} else {
					_, err = c.Get(context.Background(), target("image"), tftptest.Into(here, name))
				}
				if err != nil {
					w.t.Errorf("transfer %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		c.Wait()
		for i := range transfers {
			if i%4 == 0 {
				tftptest.WantFile(w.t, w.mem, fmt.Sprint(i), want)
			} else {
				tftptest.WantFile(w.t, here, fmt.Sprint(i), want)
			}
		}
	})
}

// With transfers in both directions over a slow link with a deep queue, a window takes far longer
// than the first round trip did. Timeouts must not cause so many packets that the queue never
// empties again.
func TestSlowLinkBothWays(t *testing.T) {
	for range 20 { // the order of goroutines differs each time
		inWorld(t, func(w *simWorld, _ *Config) { w.net.Default = slowLink }, func(w *simWorld) {
			want := w.put("image", 100_000) // 10 s on the link
			here, began := store.Mem(0), time.Now()
			c := w.client()
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := c.Get(context.Background(), target("image"), tftptest.Into(here, "image")); err != nil {
					w.t.Error(err)
				}
			})
			wg.Go(func() {
				if _, err := c.Put(context.Background(), target("new"), bytes.NewReader(want), int64(len(want))); err != nil {
					w.t.Error(err)
				}
			})
			wg.Wait()
			if took := time.Since(began); took > 40*time.Second {
				w.t.Errorf("took %v", took)
			}
			c.Wait()
			tftptest.WantFile(w.t, here, "image", want)
			tftptest.WantFile(w.t, w.mem, "new", want)
		})
	}
}
