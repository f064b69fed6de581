package openssh

import (
	"sync"
	"time"
)

// A patience cuts a connection that makes no progress within a time limit. The time in which a user
// answers a question does not count.
type patience struct {
	cut func()

	mu      sync.Mutex // guards the fields below
	timer   *time.Timer
	left    time.Duration // time until the timer fires, counted from `since`
	since   time.Time     // when the timer was last started
	running bool          // the timer is neither stopped nor paused, and has not fired
	fired   bool          // the timer has fired, and the connection was cut
}

// newPatience starts a timer that calls cut after the time `limit`.
func newPatience(limit time.Duration, cut func()) *patience {
	p := &patience{cut: cut, left: limit}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start()
	return p
}

// start starts the timer. The caller holds p.mu.
func (p *patience) start() {
	p.running, p.since = true, time.Now()
	p.timer = time.AfterFunc(p.left, p.fire)
}

// halt stops the timer, and stores how much time was left. The caller holds p.mu.
func (p *patience) halt() {
	if p.running {
		p.running = false
		p.timer.Stop()
		p.left -= time.Since(p.since)
	}
}

func (p *patience) fire() {
	p.mu.Lock()
	// The timer may fire at the moment in which it is stopped or restarted. Then ignore that it has
	// fired.
	if late := !p.running || time.Since(p.since) < p.left; late {
		p.mu.Unlock()
		return
	}
	p.running, p.fired = false, true
	p.mu.Unlock()
	p.cut()
}

// pause stops the timer until resume is called.
func (p *patience) pause() (resume func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running {
		return func() {}
	}
	p.halt()
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.fired {
			p.start()
		}
	}
}

// reset sets another time limit, counted from now on. A timer that is paused stays paused.
func (p *patience) reset(limit time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	running := p.running
	p.halt()
	if p.left = limit; running {
		p.start()
	}
}

// stop stops the timer for good, and reports whether it has cut the connection.
func (p *patience) stop() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.halt()
	return p.fired
}
