package treecopy

import (
	"sync"
)

// removalsAtOnce is how many directories are cleared of leftovers at once, besides all else.
const removalsAtOnce = 8

// leftovers removes what earlier copies, whose processes were killed, left in the target.
type leftovers struct {
	*task
	running sync.WaitGroup
	slots   chan struct{}
}

func newLeftovers(t *task) *leftovers {
	return &leftovers{task: t, slots: make(chan struct{}, removalsAtOnce)}
}

// removeFrom removes what earlier copies left in a directory of the target, besides
// all else. A failure does not matter to this copy.
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
