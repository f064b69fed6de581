package tftp

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// minWorkers wait for disks on behalf of all sessions. When jobs wait, and
	// none has been begun for workerPatience, more are started, up to maxWorkers: a
	// store may be slow, or its server gone. Such a worker ends after workerIdle
	// without a job.
	minWorkers     = 16
	maxWorkers     = 256
	workerPatience = 100 * time.Millisecond
	workerIdle     = 10 * time.Second

	// maxScanners look through text files, which takes long, and must not keep
	// other transfers from opening their files.
	maxScanners = 2
)

// A job is something that may wait for a disk, and so is a worker's. Transfers of a
// server and of a ClientPool have the same kinds.
type job uint8

const (
	noJob     job = iota
	openJob       // open the file, or begin the upload
	scanJob       // find out how long a text file is in netascii
	fetchJob      // read from the file what was not in memory
	flushJob      // write what an upload has gathered
	commitJob     // the same, and publish the file
	closeJob      // close everything
)

// A jobOwner is a transfer with a job for a worker.
type jobOwner interface {
	work()     // does the job
	handBack() // returns the transfer to its loop
}

// A workerPool has the workers of a server or a ClientPool, and the jobs that wait for them.
type workerPool struct {
	jobs     chan jobOwner
	running  sync.WaitGroup
	extra    atomic.Int64
	opened   time.Time
	begun    atomic.Int64 // when a job was begun last, in nanoseconds since opened
	checking atomic.Bool  // addWorkers is going to look

	mu    sync.Mutex
	ended bool // mu
}

// start makes room for the given number of jobs: as many as there can be, so
// that add never waits.
func (p *workerPool) start(jobs int) { p.jobs = make(chan jobOwner, jobs) }

// open starts the workers.
func (p *workerPool) open() {
	p.opened = time.Now()
	for range minWorkers {
		p.running.Go(func() {
			for o := range p.jobs {
				p.work(o)
			}
		})
	}
}

func (p *workerPool) work(o jobOwner) {
	p.begun.Store(int64(time.Since(p.opened)))
	o.work()
	o.handBack()
}

// add has a worker do a job.
func (p *workerPool) add(o jobOwner) {
	p.jobs <- o
	if !p.checking.Load() && p.checking.CompareAndSwap(false, true) {
		time.AfterFunc(workerPatience, p.addWorkers)
	}
}

// addWorkers adds workers if jobs wait and no worker begins them: as many as have
// been added before, so that a long queue is soon worked off.
func (p *workerPool) addWorkers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || len(p.jobs) == 0 {
		p.checking.Store(false)
		return
	}
	if time.Since(p.opened)-time.Duration(p.begun.Load()) >= workerPatience {
		extra := int(p.extra.Load())
		for range min(max(1, extra), maxWorkers-minWorkers-extra) {
			p.extra.Add(1)
			p.running.Go(p.runExtra)
		}
	}
	time.AfterFunc(workerPatience, p.addWorkers)
}

// runExtra does jobs until there has been none for a while.
func (p *workerPool) runExtra() {
	defer p.extra.Add(-1)
	idle := time.NewTimer(workerIdle)
	defer idle.Stop()
	for {
		select {
		case o, ok := <-p.jobs:
			if !ok {
				return
			}
			p.work(o)
			idle.Reset(workerIdle)
		case <-idle.C:
			return
		}
	}
}

// end lets the workers go when the jobs are done, and waits for them unless
// one is stuck.
func (p *workerPool) end(stuck bool) {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	close(p.jobs)
	if !stuck {
		p.running.Wait()
	}
}

// A crashError is a panic, caught.
type crashError struct {
	value any
	stack string
}

// maxStack is how many bytes of a stack are kept for the log.
const maxStack = 4 << 10

func crashed(p any) error {
	stack := debug.Stack()
	return &crashError{p, string(stack[:min(len(stack), maxStack)])}
}

func (e *crashError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// stackOf returns where a panic happened, if that is what err is.
func stackOf(err error) string {
	if crash, ok := errors.AsType[*crashError](err); ok {
		return crash.stack
	}
	return ""
}
