package treecopy

import (
	"sync"
)

const (
	// smallFile is the size, in bytes, up to which a file counts as small. The round trips for such
	// a file mostly take longer than the transfer of its data.
	smallFile = 128 << 10

	// maxQueue is the largest number of small files, and of large files, that wait to be copied.
	// When a queue is full, listing waits.
	maxQueue = 1024
)

// A queue passes files to workers as they are found. Small files have workers of their own, because
// these mostly wait for round trips, while the workers for large files wait for bandwidth.
type queue struct {
	*task
	files  *fileCopier
	closer *closer

	small, large chan *file
	smallLimit   smallLimit
	// slots has a slot for each file that is being copied; nil if only the number of workers limits
	// how many files are copied.
	slots chan struct{}
}

func newQueue(t *task, files *fileCopier, closer *closer) *queue {
	q := &queue{task: t, files: files, closer: closer}
	if t.opts.Parallel > 0 {
		t.opts.Parallel = min(t.opts.Parallel, MaxParallel)
		q.slots = make(chan struct{}, t.opts.Parallel)
	} else {
		t.opts.Parallel = defaultParallel
	}
	q.smallLimit.init(t.to, t.opts.InPlace)
	q.open()
	return q
}

// open makes new channels, from which the workers that are started later get their files.
func (q *queue) open() {
	q.small, q.large = make(chan *file, maxQueue), make(chan *file, maxQueue)
	q.smallLimit.restart()
}

// add queues a file to be copied.
func (q *queue) add(f *file) {
	files := q.small
	if f.item.Size > smallFile {
		files = q.large
	}
	select {
	case files <- f:
	case <-q.ctx.Done():
		q.closer.finish(f.dir)
	}
}

// run calls the function feed, and meanwhile copies the files that feed adds. It returns when feed
// has returned and all files are done.
func (q *queue) run(feed func()) {
	var work sync.WaitGroup
	for range q.opts.Parallel {
		work.Go(func() {
			for f := range q.large {
				q.copyInTurn(f, false)
			}
		})
	}
	q.startSmall(&work)
	feed()
	close(q.small)
	close(q.large)
	work.Wait()
}

// startSmall starts a worker for small files. When a worker gets its first file, it starts another
// worker, if more would be useful.
func (q *queue) startSmall(work *sync.WaitGroup) {
	work.Go(func() {
		for f := range q.small {
			if q.smallLimit.startAnother(f.tree) {
				q.startSmall(work)
			}
			q.copyInTurn(f, true)
		}
	})
}

// copyInTurn copies a file as soon as the limits allow. If opening it fails because too many files
// are open, it tries again when fewer are open.
func (q *queue) copyInTurn(f *file, small bool) {
	if q.slots != nil {
		q.slots <- struct{}{}
		defer func() { <-q.slots }()
	}
	var out Outcome
	err := q.smallLimit.try(small, func() (err error) {
		out, err = q.files.copy(f)
		return err
	})
	q.files.ended(f, out, err)
	q.closer.finish(f.dir)
}
