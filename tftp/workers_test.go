package tftp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/internal/linequeue"
	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/internal/tftptest"
)

// Calls that a store never answers, such as those to a network disk whose server has failed, do not
// prevent other clients from using their files.
func TestStuckStoreStopsNoOthers(t *testing.T) {
	var release chan struct{}
	inWorld(t, func(w *simWorld, _ *Config) {
		release = make(chan struct{}) // a channel of the synctest bubble
		w.disk.Before = func(c sim.Call) error {
			if c.Name == "stuck" {
				<-release
			}
			return nil
		}
	}, func(w *simWorld) {
		want := w.put("image", 5000)
		for i := range 5 * fileio.MinWorkers {
			p := w.raw(fmt.Sprintf("203.0.113.%d", 1+i))
			defer p.Close()
			p.Send(tftptest.RRQ("stuck"))
		}
		time.Sleep(time.Second)
		began, here := time.Now(), store.Mem(0)
		if _, err := w.client().Get(context.Background(), target("image"), tftptest.Into(here, "image")); err != nil {
			t.Errorf("%v; %d extra workers, %+v", err, w.server.workers.Hired(), w.server.Counters())
		}
		tftptest.WantFile(t, here, "image", want)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("a read took %v beside a stuck store", took)
		}
		close(release)
		time.Sleep(2 * fileio.WorkerIdle)
		if n := w.server.workers.Hired(); n != 0 {
			t.Errorf("%d extra workers still there", n)
		}
	})
}

// However many calls hang, the number of workers is bounded.
func TestWorkersAreBounded(t *testing.T) {
	var release chan struct{}
	inWorld(t, func(w *simWorld, s *Config) {
		release = make(chan struct{}) // a channel of the synctest bubble
		s.Loops = 1
		w.disk.Before = func(sim.Call) error {
			<-release
			return fs.ErrNotExist
		}
	}, func(w *simWorld) {
		for i := range 3 * fileio.MaxWorkers {
			p := w.raw(otherIP)
			defer p.Close()
			p.Send(tftptest.RRQ(fmt.Sprint("stuck", i)))
			time.Sleep(fileio.WorkerPatience + time.Millisecond)
		}
		if n := w.server.workers.Hired(); n != fileio.MaxWorkers-fileio.MinWorkers {
			t.Errorf("%d workers added, want %d", n, fileio.MaxWorkers-fileio.MinWorkers)
		}
		close(release)
	})
}

// A server stops even if its store does not answer, and reports that. A file that the store opens
// later is closed.
func TestEndsBesideStuckStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		w.disk.Before = func(c sim.Call) error {
			if c.Op == sim.Open {
				time.Sleep(time.Hour)
			}
			return nil
		}
		w.start(func(_ *simWorld, s *Config) { s.Grace = time.Second })
		w.put("image", 100)
		p := w.raw(otherIP)
		defer p.Close()
		p.Send(tftptest.RRQ("image"))
		time.Sleep(time.Second)
		began := time.Now()
		w.stop()
		if err := <-w.served; !errors.Is(err, errStuck) {
			t.Errorf("Serve: %v, want errStuck", err)
		}
		if took := time.Since(began); took > time.Second+stuckGrace+linequeue.Grace {
			t.Errorf("Serve took %v", took)
		}
		time.Sleep(2 * time.Hour)
		if n := w.disk.Unclosed(); n != 0 {
			t.Errorf("%d files left open", n)
		}
		if n := w.net.Host(serverIP).Open(); n != 0 {
			t.Errorf("%d sockets left open", n)
		}
	})
}

// Forged requests for files that the store never opens do not stop running transfers, even if there
// are many times more of them than there may be transfers. The queue of jobs has room for all,
// although displaced transfers still wait for their jobs.
func TestForgedRequestsAtStuckStore(t *testing.T) {
	var release chan struct{}
	inWorld(t, func(w *simWorld, s *Config) {
		release = make(chan struct{}) // a channel of the synctest bubble
		s.Loops, s.MaxTransfers = 1, 8
		w.disk.Before = func(c sim.Call) error {
			if c.Name == "stuck" {
				<-release
			}
			return nil
		}
	}, func(w *simWorld) {
		defer close(release)
		want := w.put("image", 512*500)
		p := w.raw(otherIP)
		defer p.Close()
		p.Send(tftptest.RRQ("image"))
		p.Want("DATA 1", tftptest.Data(1, want[:512]))
		const rounds = 400
		for block := 1; block <= rounds; block++ {
			p.Send(tftptest.ACK(block))
			p.Want(fmt.Sprint("DATA after round ", block), tftptest.Data(block+1, want[block*512:(block+1)*512]))
			for i := range 8 {
				forged := w.raw(fmt.Sprintf("203.0.%d.%d", 100+block/100, 1+8*(block%30)+i))
				forged.Send(tftptest.RRQ("stuck"))
				forged.Close()
			}
			time.Sleep(unprovenAge + time.Millisecond)
		}
		if n := w.server.Counters().Live; n > 2*8 {
			t.Errorf("%d transfers under way, at most 8, and as many that have lost their place, are allowed; %+v", n, w.server.Counters())
		}
		p.Send(tftptest.ErrorPacket(0, "enough"))
	})
}
