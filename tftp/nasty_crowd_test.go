package tftp

import (
	"fmt"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/sim"
)

// Forged requests for files that the store never opens, many times as many as
// there may be transfers, do not stop those that are under way: the queue of
// jobs has room for all, as what loses its place still waits for its job.
func TestNastyCrowdAtStuckStore(t *testing.T) {
	var release chan struct{}
	inWorld(t, func(w *world, s *Server) {
		release = make(chan struct{}) // in the bubble
		s.Loops, s.MaxTransfers = 1, 8
		w.disk.Before = func(c sim.Call) error {
			if c.Name == "stuck" {
				<-release
			}
			return nil
		}
	}, func(w *world) {
		defer close(release)
		want := w.put("image", 512*500)
		p := w.raw(otherIP)
		defer p.close()
		p.send(rrq("image"))
		p.want("DATA 1", data(1, want[:512]))
		const rounds = 400
		for block := 1; block <= rounds; block++ {
			p.send(ack(block))
			p.want(fmt.Sprint("DATA after round ", block), data(block+1, want[block*512:(block+1)*512]))
			for i := range 8 {
				forged := w.raw(fmt.Sprintf("203.0.%d.%d", 100+block/100, 1+8*(block%30)+i))
				forged.send(rrq("stuck"))
				forged.close()
			}
			time.Sleep(suspectAge + time.Millisecond)
		}
		if n := w.listener.Counters().Live; n > 2*8 {
			t.Errorf("%d transfers under way, at most 8, and as many that have lost their place, are allowed; %d jobs wait, %+v", n, len(w.listener.workers.jobs), w.listener.Counters())
		}
		p.send(errorPacket(0, "enough"))
	})
}
