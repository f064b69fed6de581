package tftpclient

import "sync"

// A group counts goroutines. Other than of a sync.WaitGroup, more may be added
// during a wait.
type group struct {
	mu   sync.Mutex
	n    int           // mu: goroutines that run
	idle chan struct{} // mu: closed when n falls to zero; nil while it is zero
}

func (g *group) run(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n == 0 {
		g.idle = make(chan struct{})
	}
	g.n++
	go func() {
		defer g.leave()
		f()
	}()
}

func (g *group) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 {
		close(g.idle)
		g.idle = nil
	}
}

// wait returns once no goroutine runs.
func (g *group) wait() {
	g.mu.Lock()
	idle := g.idle
	g.mu.Unlock()
	if idle != nil {
		<-idle
	}
}
