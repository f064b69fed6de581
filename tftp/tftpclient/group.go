package tftpclient

import "sync"

// A group counts goroutines or transfers. Unlike with a sync.WaitGroup, more may be added during a
// wait.
type group struct {
	mu   sync.Mutex
	n    int           // the current count; guarded by mu
	idle chan struct{} // guarded by mu; closed when n falls to zero; nil while n is zero
}

func (g *group) add() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n == 0 {
		g.idle = make(chan struct{})
	}
	g.n++
}

func (g *group) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 {
		close(g.idle)
		g.idle = nil
	}
}

// run calls f in a new goroutine, and counts the goroutine until f returns.
func (g *group) run(f func()) {
	g.add()
	go func() {
		defer g.leave()
		f()
	}()
}

func (g *group) size() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.n
}

// wait waits until the count is zero.
func (g *group) wait() {
	g.mu.Lock()
	idle := g.idle
	g.mu.Unlock()
	if idle != nil {
		<-idle
	}
}
