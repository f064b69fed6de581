package fileio

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A slowJob takes a while, like a job that waits for a disk.
type slowJob struct {
	takes time.Duration
	done  *atomic.Int64
}

func (j slowJob) Work()     { time.Sleep(j.takes) }
func (j slowJob) HandBack() { j.done.Add(1) }

// Extra workers are started as soon as a job waits for long, even if other jobs begin all the time.
// They exit when there are no more jobs. Jobs that wait only for a moment cause no extra workers.
func TestWorkersByAge(t *testing.T) {
	for _, test := range []struct {
		jobs int
		want bool // extra workers are started
	}{{3 * MinWorkers, false}, {20 * MinWorkers, true}} {
		synctest.Test(t, func(t *testing.T) {
			var p Workers
			p.Init(test.jobs)
			p.Start()
			var done atomic.Int64
			began := time.Now()
			for range test.jobs {
				p.Add(slowJob{WorkerPatience / 4, &done})
			}
			time.Sleep(3 * WorkerPatience)
			if n := p.Hired(); (n > 0) != test.want {
				t.Errorf("%d jobs: %d workers were added", test.jobs, n)
			}
			for done.Load() < int64(test.jobs) {
				time.Sleep(WorkerPatience / 8)
			}
			alone := time.Duration(test.jobs/MinWorkers) * WorkerPatience / 4
			if took := time.Since(began); test.want && took >= alone {
				t.Errorf("%d jobs took %v, as without more workers (%v)", test.jobs, took, alone)
			}
			time.Sleep(2 * WorkerIdle)
			if n := p.Hired(); n != 0 {
				t.Errorf("%d jobs: %d workers that were added are still there", test.jobs, n)
			}
			p.End(false)
		})
	}
}

// If a job is added while addWorkers checks the queue, it checks again later, even if it saw no
// job. This matters if all workers wait for a disk that hangs and no other job is added.
func TestWorkersLookAgain(t *testing.T) {
	var p Workers
	p.Init(1)
	p.checkLater()
	p.mu.Lock() // addWorkers holds mu while it checks the queue
	for began := time.Now(); p.checking.Load(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("a job that is added while addWorkers looks does not have it look again")
		}
	}
	p.mu.Unlock()
	var done atomic.Int64
	p.Add(slowJob{0, &done})
	for began := time.Now(); done.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("no worker was added for the job")
		}
	}
	p.End(false)
}

// A lendingJob waits for another machine, which answers only when released is closed.
type lendingJob struct {
	p        *Workers
	released chan struct{}
	done     *atomic.Int64
}

func (j lendingJob) Work() {
	defer j.p.Lend()()
	<-j.released
}
func (j lendingJob) HandBack() { j.done.Add(1) }

// Even if any number of jobs wait for a machine that does not answer, there are workers for other
// jobs. When those jobs are done, no more workers remain than may wait for disks.
func TestLentWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const waiting, others = 4 * MaxWorkers, 100
		var p Workers
		p.Init(waiting + others)
		p.Start()
		var away, done atomic.Int64
		released := make(chan struct{})
		for range waiting {
			p.Add(lendingJob{&p, released, &away})
		}
		for range others {
			p.Add(slowJob{0, &done})
		}
		time.Sleep(20 * WorkerPatience)
		if done.Load() != others {
			t.Errorf("%d of %d other jobs are done, behind %d that wait for another machine", done.Load(), others, waiting)
		}
		close(released)
		synctest.Wait()
		if n := p.Hired(); away.Load() != waiting || n > MaxWorkers {
			t.Errorf("%d of %d jobs ended, and %d workers that were added are left", away.Load(), waiting, n)
		}
		p.End(false)
	})
}
