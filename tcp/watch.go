package tcp

import (
	"sync/atomic"
	"time"
)

// A watch takes the role to accept from workers that keep it too long: their handler
// computes, or waits for something that is not its connection.
type watch struct {
	acceptors []*acceptor
	asleep    atomic.Bool
	wake      chan struct{} // of 1
}

const (
	// watchTick is how often it looks. A connection may have to wait twice as
	// long, because of one that came before it.
	watchTick = time.Millisecond

	// eagerTime is for how long an acceptor gives the role on before it serves,
	// once it was seen to keep it too long.
	eagerTime = time.Second

	// drowsyTicks is how many ticks nothing is accepted in, for the watch to
	// sleep until something is.
	drowsyTicks = 16

	// trimTime is how often idle workers are let go.
	trimTime = 5 * time.Second
)

// rouse wakes the watch if it sleeps. An acceptor calls it after it has accepted.
func (w *watch) rouse() {
	if w.asleep.CompareAndSwap(true, false) {
		w.wake <- struct{}{}
	}
}

// run watches until over is closed.
func (w *watch) run(over <-chan struct{}) {
	tick := time.NewTicker(watchTick)
	defer tick.Stop()
	seen := make([]look, len(w.acceptors))
	quiet, trimmed := 0, time.Now()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		busy := false
		for i, a := range w.acceptors {
			busy = seen[i].at(a) || busy
		}
		if quiet++; busy {
			quiet = 0
		}
		if time.Since(trimmed) >= trimTime {
			trimmed = time.Now()
			w.trim()
		}
		if quiet < drowsyTicks {
			continue
		}
		tick.Stop()
		w.asleep.Store(true)
		for i, a := range w.acceptors { // an acceptor that began before asleep was set did not rouse w
			if seen[i].at(a) {
				w.rouse()
			}
		}
		if !w.sleep(over) {
			return
		}
		quiet = 0
		tick.Reset(watchTick)
	}
}

// sleep waits until something is accepted, and lets go of idle workers meanwhile. It
// reports false at the end.
func (w *watch) sleep(over <-chan struct{}) bool {
	slow := time.NewTicker(trimTime)
	defer slow.Stop()
	for {
		select {
		case <-over:
			return false
		case <-w.wake:
			return true
		case <-slow.C:
			w.trim()
		}
	}
}

func (w *watch) trim() {
	for _, a := range w.acceptors {
		a.trim()
	}
}

// A look is what an acceptor was doing when the watch looked last.
type look struct {
	holder *worker
	seq    uint32
}

// at looks at an acceptor, and takes the role from who has served one connection
// since the last look. It reports whether anything has been accepted since then, or
// is being served by who has the role.
func (l *look) at(a *acceptor) (busy bool) {
	w := a.holder.Load()
	seq := w.seq.Load()
	same := w == l.holder && seq == l.seq
	l.holder, l.seq = w, seq
	if same && w.state.Load() == serving {
		a.eager.Store(time.Now().Add(eagerTime).UnixNano())
		w.release()
	}
	return !same || w.state.Load() == serving
}
