package treecopy

import (
	"sync"
)

const (
	// smallFile is the most bytes of a small file, whose round trips take longer than its data.
	smallFile = 128 << 10

	// maxQueue is how many files of either kind wait to be copied. The listings wait beyond that.
	maxQueue = 1024
)

// A queue has workers copy files as they are found. Small files have workers of their own: they
// wait for round trips, and large ones for the bandwidth.
type queue struct {
	*task
	files  *fileCopier
	closer *closer

	small, large chan *file
	smallLimit   smallLimit
	slots        chan struct{} // one for each file under way; nil if only the workers bound them
}

func newQueue(t *task, files *fileCopier, closer *closer) *queue {
	q := &queue{task: t, files: files, closer: closer}
	if t.opts.Parallel > 0 {
		t.opts.Parallel = min(t.opts.Parallel, MaxParallel)
		q.slots = make(chan struct{}, t.opts.Parallel)
	} else {
		t.opts.Parallel = DefaultParallel
	}
	q.smallLimit.init(t.to, t.opts.InPlace)
	q.open()
	return q
}

// open opens the queues of files, for workers that are yet to be started.
func (q *queue) open() {
	q.small, q.large = make(chan *file, maxQueue), make(chan *file, maxQueue)
	q.smallLimit.restart()
}

// add hands a file over to be copied.
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

// run copies the files that feed finds, until it returns and all are
// done.
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

// startSmall starts a worker for small files. With its first file it starts the next one,
// as long as more are worth having.
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

// copyInTurn copies a file once there are few enough on their way. If it cannot be opened
// as too many are, it is tried again with fewer.
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
