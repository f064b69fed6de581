package s3

import (
	"context"
	"sync"
)

// A memory bounds the use of a resource: bytes of uploads, or requests. Callers that want more than
// is free wait, and are served in the order of their calls.
type memory struct {
	mu      sync.Mutex
	free    int64     // mu: bytes
	waiting []*waiter // mu
}

type waiter struct {
	n     int64
	ready chan struct{}
}

// take takes n units, and waits until they are free.
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
			m.serve() // this caller may have blocked others
			return context.Cause(ctx)
		}
	}
	m.free += n // its turn came while ctx ended
	m.serve()
	return context.Cause(ctx)
}

// give returns n units.
func (m *memory) give(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free += n
	m.serve()
}

// serve gives free units to waiting callers. The caller holds mu.
func (m *memory) serve() {
	for len(m.waiting) > 0 && m.free >= m.waiting[0].n {
		w := m.waiting[0]
		m.waiting = m.waiting[1:]
		m.free -= w.n
		close(w.ready)
	}
}
