package s3

import (
	"context"
	"sync"
)

// A memory limits the use of a resource: bytes of uploads, or requests. Callers that want more than
// is free wait, in the order of their calls.
type memory struct {
	mu      sync.Mutex
	free    int64     // unused units of the resource; guarded by mu
	waiting []*waiter // callers that wait, in order; guarded by mu
}

type waiter struct {
	n     int64
	ready chan struct{}
}

// take waits until n units are free, and takes them. If ctx ends first, it takes nothing and
// returns an error.
func (m *memory) take(ctx context.Context, n int64) error {
	m.mu.Lock()
	if len(m.waiting) == 0 && m.free >= n {
		m.free -= n
		m.mu.Unlock()
		return nil
	}
	w := &waiter{n, make(chan struct{})}
	m.waiting = append(m.waiting, w)
	m.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, o := range m.waiting {
		if o == w {
			m.waiting = append(m.waiting[:i:i], m.waiting[i+1:]...)
			m.serve() // callers that waited after this one may get their units now
			return context.Cause(ctx)
		}
	}
	m.free += n // the units were assigned to this caller just when ctx ended, so give them back
	m.serve()
	return context.Cause(ctx)
}

// give returns n units that take has taken.
func (m *memory) give(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free += n
	m.serve()
}

// serve assigns free units to waiting callers. The caller holds mu.
func (m *memory) serve() {
	for len(m.waiting) > 0 && m.free >= m.waiting[0].n {
		w := m.waiting[0]
		m.waiting = m.waiting[1:]
		m.free -= w.n
		close(w.ready)
	}
}
