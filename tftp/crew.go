package tftp

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// minWorkers wait for disks on behalf of all sessions. When jobs wait, and
	// none has been begun for crewPatience, more are hired, up to maxWorkers: a
	// store may be slow, or its server gone. A hired one leaves after workerRest
	// without a job.
	minWorkers   = 16
	maxWorkers   = 256
	crewPatience = 100 * time.Millisecond
	workerRest   = 10 * time.Second

	// maxScanners look through text files, which takes long, and must not keep
	// other transfers from opening their files.
	maxScanners = 2
)

// A jobOwner is a transfer with a job for a worker.
type jobOwner interface {
	work()     // does the job
	handBack() // returns the transfer to its loop
}

// A crew is the workers of a server or a ClientPool, and the jobs that wait for them.
type crew struct {
	jobs    chan jobOwner
	workers sync.WaitGroup
	hired   atomic.Int64
	opened  time.Time
	begun   atomic.Int64 // when a job was begun last, in nanoseconds since opened
	watched atomic.Bool  // relieve is going to look

	mu    sync.Mutex
	ended bool // mu
}

// start makes room for the given number of jobs: as many as there can be, so
// that add never waits.
func (c *crew) start(jobs int) { c.jobs = make(chan jobOwner, jobs) }

// open has the crew begin its work.
func (c *crew) open() {
	c.opened = time.Now()
	for range minWorkers {
		c.workers.Go(func() {
			for o := range c.jobs {
				c.work(o)
			}
		})
	}
}

func (c *crew) work(o jobOwner) {
	c.begun.Store(int64(time.Since(c.opened)))
	o.work()
	o.handBack()
}

// add has a worker do a job.
func (c *crew) add(o jobOwner) {
	c.jobs <- o
	if !c.watched.Load() && c.watched.CompareAndSwap(false, true) {
		time.AfterFunc(crewPatience, c.relieve)
	}
}

// relieve adds workers if jobs wait and no worker begins them: as many as have
// been hired before, so that a long queue is soon worked off.
func (c *crew) relieve() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || len(c.jobs) == 0 {
		c.watched.Store(false)
		return
	}
	if time.Since(c.opened)-time.Duration(c.begun.Load()) >= crewPatience {
		hired := int(c.hired.Load())
		for range min(max(1, hired), maxWorkers-minWorkers-hired) {
			c.hired.Add(1)
			c.workers.Go(c.helpOut)
		}
	}
	time.AfterFunc(crewPatience, c.relieve)
}

// helpOut does jobs until there has been none for a while.
func (c *crew) helpOut() {
	defer c.hired.Add(-1)
	rest := time.NewTimer(workerRest)
	defer rest.Stop()
	for {
		select {
		case o, ok := <-c.jobs:
			if !ok {
				return
			}
			c.work(o)
			rest.Reset(workerRest)
		case <-rest.C:
			return
		}
	}
}

// end lets the workers go when the jobs are done, and waits for them unless
// one is stuck.
func (c *crew) end(stuck bool) {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	close(c.jobs)
	if !stuck {
		c.workers.Wait()
	}
}
