package hooks

import (
	"sync"

	"github.com/haul-project/haul/cmd/haul/internal/server/activity"
	"github.com/haul-project/haul/internal/shares"
)

const (
	// maxQueue is how many runs of one hook may wait. The events of a source may take as many of
	// these places as are still free. Further runs are dropped and counted.
	maxQueue = 1024

	// maxQueues is how many runs of all hooks together may wait. If there are many hooks, each hook
	// gets an equal share.
	maxQueues = 4 * maxQueue
)

// A waiting is a run that waits: the index of a hook, and the event that triggered the hook.
type waiting struct {
	hook  int
	event activity.Event
}

// turns holds the waiting runs, in one queue for each hook. The hooks take turns, so that many
// events for one hook, such as wrong passwords, do not delay the others.
type turns struct {
	queues []chan waiting
	shares []shares.Table // the number of waiting runs in all and of each source, for each queue
	some   chan struct{}  // contains one value for each waiting run; receive a value before each call of take

	mu   sync.Mutex
	next int // the index of the hook whose turn it is; guarded by mu
}

func newTurns(hooks int) *turns {
	each := min(maxQueue, maxQueues/max(hooks, 1))
	t := &turns{some: make(chan struct{}, hooks*each), shares: make([]shares.Table, hooks)}
	for range hooks {
		t.queues = append(t.queues, make(chan waiting, each))
	}
	return t
}

// add queues a run. It returns false if too many runs of its hook wait, in all or for the event's
// source.
func (t *turns) add(w waiting) bool {
	queue := t.queues[w.hook]
	if !t.shares[w.hook].Take(w.event.Source(), 1, shares.Bound{Most: cap(queue), Times: 1}) {
		return false
	}
	queue <- w // never blocks: a share was taken, so the channel has room
	t.some <- struct{}{}
	return true
}

// take returns the next run. Before each call, the caller must have received a value from the
// channel `some`.
func (t *turns) take() waiting {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		queue := t.queues[t.next]
		t.next = (t.next + 1) % len(t.queues)
		select {
		case w := <-queue:
			t.shares[w.hook].Give(w.event.Source(), 1)
			return w
		default:
		}
	}
}
