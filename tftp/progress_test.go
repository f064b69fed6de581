package tftp

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/tftp/internal/tftptest"
)

// A running transfer shows its progress, and the problems with its peer.
func TestLiveProgress(t *testing.T) {
	var last atomic.Pointer[Transfer]
	inWorld(t, func(_ *simWorld, s *Config) {
		s.Hooks.Started = func(tr *Transfer) {
			if p := tr.Progress(); p.Bytes != 0 || p.Resent != 0 {
				t.Errorf("at its begin it is at %+v", p)
			}
			last.Store(tr)
		}
	}, func(w *simWorld) {
		w.put("image", 5000)
		reader := w.raw(clientIP)
		defer reader.Close()
		reader.Ask(tftptest.RRQ("image", "windowsize", "4"))
		reader.Want("OACK", tftptest.OACK("windowsize", "4"))
		reader.Send(tftptest.ACK(0))
		time.Sleep(time.Millisecond)
		reader.Send(tftptest.ACK(4))
		synctest.Wait()
		p := last.Load().Progress()
		if p.Bytes != 2048 || p.Window != 4 || p.Resent != 0 || p.RTT <= 0 {
			t.Errorf("after two windows: %+v", p)
		}
		time.Sleep(10 * time.Second) // the peer is silent
		if p := last.Load().Progress(); p.Bytes != 2048 || p.Resent == 0 {
			t.Errorf("after a silence: %+v", p)
		}

		writer := w.raw(otherIP)
		defer writer.Close()
		writer.Ask(tftptest.WRQ("new"))
		writer.Want("ACK", tftptest.ACK(0))
		writer.Send(tftptest.Data(1, make([]byte, 512)))
		writer.Want("ACK", tftptest.ACK(1))
		synctest.Wait()
		if p := last.Load().Progress(); p.Bytes != 512 || p.Window != 1 {
			t.Errorf("after a block: %+v", p)
		}
	})
}

// Reporting the progress of a transfer does not allocate.
func TestProgressAllocatesNothing(t *testing.T) {
	tr := Transfer{progress: new(progress)}
	if n := testing.AllocsPerRun(100, func() {
		tr.progress.report(1<<40, tr.Stats)
		_ = tr.Progress()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
