package treecopy

import (
	"sync"
)

const (
	// smallFile is the largest size of a small file, in bytes. The round trips of such a file take
	// longer than its data.
	smallFile = 128 << 10

	// maxQueue is how many files of either kind can wait to be copied. When there are so many,
	// listing waits.
	maxQueue = 1024
)

// A queue lets workers copy files as they are found. Small files have their own workers, because
// they wait for round trips, while large files wait for the bandwidth.
type queue struct {
	*task
	files  *fileCopier
	closer *closer

	small, large chan *file
	smallLimit   smallLimit
	slots        chan struct{} // a slot for each file under way; nil if only the number of workers bounds them
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

// open makes new channels, for workers that are started later.
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

// run copies the files that feed finds. It returns when feed has returned and all files are done.
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

// startSmall starts a worker for small files. When a worker gets its first file, it starts the next
// worker, as long as more are useful.
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

// copyInTurn copies a file when few enough are under way. If opening it fails because too many
// files are open, it tries again with fewer.
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
