package treecopy

import (
	"sync"
)

// removalsAtOnce is the largest number of directories from which leftovers are removed in the
// background at the same time.
const removalsAtOnce = 8

// leftovers removes temporary files that earlier copies left because their processes were killed.
type leftovers struct {
	*task
	running sync.WaitGroup
	slots   chan struct{}
}

func newLeftovers(t *task) *leftovers {
	return &leftovers{task: t, slots: make(chan struct{}, removalsAtOnce)}
}

// removeFrom removes leftovers from a directory of the target, in the background if possible.
// Failures are ignored, because they do not affect this copy.
func (l *leftovers) removeFrom(dir string) {
	remove := l.to.can.RemoveLeftovers
	if remove == nil || l.opts.DryRun {
		return
	}
	select {
	case l.slots <- struct{}{}:
		l.running.Go(func() {
			_ = remove(l.ctx, dir)
			<-l.slots
		})
	default:
		_ = remove(l.ctx, dir)
	}
}
