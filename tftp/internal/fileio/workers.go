// Package fileio reads and writes the files of TFTP transfers. It collects blocks for the store,
// fetches data that is not in memory, translates text, and runs the workers that wait for disks.
// The server and the clients share it.
package fileio

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// MinWorkers workers wait for disks on behalf of all transfers. When the oldest job has waited for
// WorkerPatience, extra workers are started, so that there are up to MaxWorkers in all. More
// workers help if a store is slow, or if its server cannot be reached. They also help uploads,
// because one fsync of a directory serves all uploads that wait for it. An extra worker exits after
// WorkerIdle without a job. A worker that waits for another machine does not count: see
// [Workers.Lend].
const (
	MinWorkers     = 16
	MaxWorkers     = 256
	WorkerPatience = 10 * time.Millisecond
	WorkerIdle     = 10 * time.Second
)

// A Job is a kind of work that may wait for a disk, and so is done by a worker. Servers and pools
// of clients use the same kinds.
type Job uint8

// The jobs.
const (
	NoJob     Job = iota
	OpenJob       // open the file, or begin the upload
	ScanJob       // determine the length of a text file in netascii
	FetchJob      // read bytes of the file that were not in memory
	FlushJob      // write the buffered data of an upload
	CommitJob     // write the buffered data, and publish the file
	CloseJob      // close all files
)

// A JobOwner is a transfer with a job for a worker.
type JobOwner interface {
	Work()     // does the job
	HandBack() // returns the transfer to its loop
}

// Workers holds the workers of a server or a pool of clients, and the jobs that wait for them.
type Workers struct {
	jobs     chan Waiter
	running  sync.WaitGroup
	extra    atomic.Int64
	lent     atomic.Int64 // number of workers that wait for other machines
	opened   time.Time
	begun    atomic.Int64 // when the job that a worker began last was added, in nanoseconds since opened
	checking atomic.Bool  // addWorkers is scheduled

	mu    sync.Mutex
	ended bool // End was called; guarded by mu
}

// A Waiter is a transfer whose job waits for a worker.
type Waiter struct {
	JobOwner
	added time.Duration // when the job was added, since Workers.opened
}

// Init makes room for the given number of jobs. At no time may there be more jobs, so that Add
// never waits.
func (p *Workers) Init(jobs int) { p.jobs = make(chan Waiter, jobs) }

// Start starts the workers.
func (p *Workers) Start() {
	p.opened = time.Now()
	for range MinWorkers {
		p.running.Go(func() {
			for w := range p.jobs {
				p.work(w)
			}
		})
	}
}

func (p *Workers) work(w Waiter) {
	p.begun.Store(int64(w.added))
	w.Work()
	w.HandBack()
}

// Add adds a job, which a worker will do.
func (p *Workers) Add(o JobOwner) {
	p.jobs <- Waiter{o, time.Since(p.opened)}
	p.checkLater()
}

// checkLater schedules addWorkers after WorkerPatience, unless it is already scheduled.
func (p *Workers) checkLater() {
	if !p.checking.Load() && p.checking.CompareAndSwap(false, true) {
		time.AfterFunc(WorkerPatience, p.addWorkers)
	}
}

// Waiting returns the waiting jobs, for a test that does these jobs itself. No extra workers are
// started from then on.
func (p *Workers) Waiting() <-chan Waiter {
	p.checking.Store(true)
	return p.jobs
}

// Hired returns how many extra workers are running.
func (p *Workers) Hired() int { return int(p.extra.Load()) }

// addWorkers starts extra workers if jobs have waited for long. It doubles the number of extra
// workers, so that a long queue soon becomes short. Jobs begin in order, so all waiting jobs were
// added after the one that was begun last.
func (p *Workers) addWorkers() {
	// checking is cleared before the check, so that either this check finds a new job, or Add
	// schedules another check.
	p.checking.Store(false)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || len(p.jobs) == 0 {
		return
	}
	if time.Since(p.opened)-time.Duration(p.begun.Load()) >= WorkerPatience {
		extra := int(p.extra.Load())
		for range min(max(1, extra), p.mostExtra()-extra) {
			p.extra.Add(1)
			p.running.Go(p.runExtra)
		}
	}
	p.checkLater()
}

// mostExtra returns how many extra workers there may be.
func (p *Workers) mostExtra() int { return MaxWorkers - MinWorkers + int(p.lent.Load()) }

// Lend records that the calling worker waits for another machine, until the worker calls the
// returned function. Another worker may be started in its place: waiting for a network takes no
// thread of the system, and a server that does not answer must not keep all workers from other
// files. There are never more such workers than transfers, because each transfer has at most one
// job.
func (p *Workers) Lend() (back func()) {
	p.lent.Add(1)
	return func() { p.lent.Add(-1) }
}

// runExtra does jobs until there was no job for WorkerIdle, or until there are too many workers
// because those that waited for other machines are back.
func (p *Workers) runExtra() {
	defer p.extra.Add(-1)
	idle := time.NewTimer(WorkerIdle)
	defer idle.Stop()
	for {
		select {
		case w, ok := <-p.jobs:
			if !ok {
				return
			}
			p.work(w)
			if int(p.extra.Load()) > p.mostExtra() {
				return
			}
			idle.Reset(WorkerIdle)
		case <-idle.C:
			return
		}
	}
}

// End makes the workers exit once all jobs are done. It waits for them unless stuck is true, since
// a stuck worker may never return.
func (p *Workers) End(stuck bool) {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	close(p.jobs)
	if !stuck {
		p.running.Wait()
	}
}

// A crashError is a caught panic.
type crashError struct {
	value any
	stack string
}

// maxStack is how many bytes of a stack are kept for the log.
const maxStack = 4 << 10

// Crashed returns the error of a transfer that panicked with the value p. The error contains the
// stack.
func Crashed(p any) error {
	stack := debug.Stack()
	return &crashError{p, string(stack[:min(len(stack), maxStack)])}
}

func (e *crashError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// StackOf returns the stack of a panic, if err comes from [Crashed].
func StackOf(err error) string {
	if crash, ok := errors.AsType[*crashError](err); ok {
		return crash.stack
	}
	return ""
}
