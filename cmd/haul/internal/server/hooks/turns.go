package hooks

import (
	"sync"

	"github.com/haul-project/haul/cmd/haul/internal/server/activity"
)

const (
	// maxQueue is how many runs of a hook wait for their turn. More are dropped and counted.
	maxQueue = 1024

	// maxQueues is how many runs wait in all. With many hooks each gets an equal part.
	maxQueues = 4 * maxQueue
)

// A waiting run is an event for a hook.
type waiting struct {
	hook  int
	event activity.Event
}

// turns are the runs that wait, in a queue for each hook. The hooks take turns, so that a flood of
// events for one, such as of wrong passwords, does not keep the others from being run.
type turns struct {
	queues []chan waiting
	some   chan struct{} // one for each run that waits; received before it is taken

	mu   sync.Mutex
	next int // mu: the hook whose turn it is
}

func newTurns(hooks int) *turns {
	each := min(maxQueue, maxQueues/max(hooks, 1))
	t := &turns{some: make(chan struct{}, hooks*each)}
	for range hooks {
		t.queues = append(t.queues, make(chan waiting, each))
	}
	return t
}

// add has a run wait for its turn. It reports false if too many of its hook do.
func (t *turns) add(w waiting) bool {
	select {
	case t.queues[w.hook] <- w:
		t.some <- struct{}{} // it has room for all
		return true
	default:
		return false
	}
}

// take returns the next run, for something that was received from some.
func (t *turns) take() waiting {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		queue := t.queues[t.next]
		t.next = (t.next + 1) % len(t.queues)
		select {
		case w := <-queue:
			return w
		default:
		}
	}
}
