package treecopy

import (
	"sync"
)

// removalsAtOnce is how many directories are cleared of leftovers at the same time, in the
// background.
const removalsAtOnce = 8

// leftovers removes the temporary files of earlier copies whose processes were killed.
type leftovers struct {
	*task
	running sync.WaitGroup
	slots   chan struct{}
}

func newLeftovers(t *task) *leftovers {
	return &leftovers{task: t, slots: make(chan struct{}, removalsAtOnce)}
}

// removeFrom removes leftovers from a directory of the target, in the background if possible. A
// failure has no effect on this copy.
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
