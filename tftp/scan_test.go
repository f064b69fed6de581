package tftp

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
)

// Scanning text files takes a long time, but does not delay other transfers or the server's
// shutdown.
func TestScansDelayNoOthers(t *testing.T) {
	inWorld(t, func(w *simWorld, s *Config) {
		s.Grace = 5 * time.Second
		w.disk.Before = func(c sim.Call) error {
			if c.Op == sim.Read && c.Name == "text" {
				time.Sleep(time.Second)
			}
			return nil
		}
	}, func(w *simWorld) {
		w.put("text", 4<<20)
		want := w.put("image", 5000)
		for i := range 3 * fileio.MinWorkers {
			p := w.raw(fmt.Sprintf("192.0.2.%d", 100+i))
			p.Send(tftptest.Packet(1, "text", "netascii", nil))
			p.Close()
		}
		time.Sleep(time.Second)
		began, here := time.Now(), store.Mem(0)
		if _, err := w.client().Get(context.Background(), target("image"), tftptest.Into(here, "image")); err != nil {
			t.Fatal(err)
		}
		tftptest.WantFile(t, here, "image", want)
		if took := time.Since(began); took > time.Second {
			t.Errorf("a read took %v beside text files", took)
		}
		began = time.Now()
		w.stop()
		w.served <- <-w.served // wait, and put the result back for the end of the world
		if took := time.Since(began); took > 8*time.Second {
			t.Errorf("the server took %v to end, with a grace of 5 s", took)
		}
	})
}

// A text file above the limit is refused, with advice.
func TestTextTooLarge(t *testing.T) {
	inWorld(t, nil, func(w *simWorld) {
		w.put("text", maxText+1)
		tt := target("text")
		tt.Mode = transfer.Netascii
		_, err := w.client().Get(context.Background(), tt, tftptest.Into(store.Mem(0), "text"))
		tftptest.WantFault(t, err, transfer.NotDefined)
	})
}
