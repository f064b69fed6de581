package tcp

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// An acceptor takes the connections of one listening socket and has them served.
//
// One of its workers has the role to accept, and with it the socket. It serves what
// it has accepted itself, and keeps the role meanwhile, since most of what a server
// does for a connection takes less time than to wake another goroutine. It gives
// the role to another worker when it has to wait for its peer; and if it computes,
// or waits for something else, the watch takes the role from it.
type acceptor struct {
	g      *gate
	watch  *watch
	ended  func(error) // it accepts no more
	k      *kernel
	roster *roster

	holder atomic.Pointer[worker] // who has the role
	eager  atomic.Int64           // the role is given on at once until then: nanoseconds of Unix time
	spare  *conn                  // for the next connection; belongs to the accepting worker
	slab   []Conn                 // handles not used yet; the same

	mu   sync.Mutex
	idle []*worker // mu: those with nothing to do; the last was busy last
	done bool      // mu: no worker is needed any more
	work sync.WaitGroup
}

const (
	// maxIdle is how many workers with nothing to do are kept by all acceptors of a
	// run, since their stacks have grown to what the handler needs: at 8 KiB each,
	// 8 MiB. Half of them go every few seconds: see trimTime.
	maxIdle = 1024

	// handleSlab is how many handles are allocated at a time.
	handleSlab = 32

	// How long accepting waits when the process has run out of descriptors or
	// memory.
	firstAcceptDelay = 5 * time.Millisecond
	maxAcceptDelay   = time.Second
)

// A worker is a goroutine that accepts or serves.
type worker struct {
	a     *acceptor
	state atomic.Int32
	seq   atomic.Uint32 // connections it has begun to serve
	wake  chan bool     // gives it the role; false ends it
	wait  func()        // release, made once
}

// The states of a worker.
const (
	withoutRole = iota // it has not got the role
	accepting          // it has, and waits for a connection
	serving            // it has, and anybody may take it away
)

func (a *acceptor) newWorker() *worker {
	w := &worker{a: a, wake: make(chan bool, 1)}
	w.wait = w.release
	return w
}

// start has a new worker begin with the role.
func (a *acceptor) start() {
	w := a.newWorker()
	w.state.Store(accepting)
	a.holder.Store(w)
	a.work.Go(w.loop)
}

// loop is a worker's life. It begins with the role.
func (w *worker) loop() {
	a := w.a
	over := false
	defer func() {
		if !over { // a handler has called runtime.Goexit
			w.release()
		}
	}()
	for {
		c, err := a.next()
		if err != nil {
			over = true
			a.end(err)
			return
		}
		h := a.handle(c)
		a.g.awaitAccept()
		w.seq.Add(1)
		w.state.Store(serving)
		if a.watch.asleep.Load() { // after serving is stored: it looks the other way round
			a.watch.rouse()
		}
		if until := a.eager.Load(); until != 0 && time.Now().UnixNano() < until {
			w.release()
		}
		c.onWait = w.wait
		a.g.serve(c, h)
		if !w.state.CompareAndSwap(serving, accepting) && !w.park() {
			over = true
			return
		}
	}
}

// handle returns a handle for the connection that c is going to serve.
func (a *acceptor) handle(c *conn) *Conn {
	if len(a.slab) == 0 {
		a.slab = make([]Conn, handleSlab)
	}
	h := &a.slab[0]
	a.slab = a.slab[1:]
	h.c, h.gen = c, uint32(c.state.Load()>>genShift)
	return h
}

// next accepts a connection that may be served. Its error is that there will be no
// more.
func (a *acceptor) next() (*conn, error) {
	delay := time.Duration(0)
	for {
		if a.spare == nil {
			a.spare = a.roster.take()
		}
		err := a.k.accept(&a.spare.sock)
		if err == nil && a.g.admit(a.spare) {
			c := a.spare
			a.spare = nil
			a.roster.enter(c)
			return c, nil
		}
		switch {
		case err == nil: // not admitted
			a.spare.sysClose()
			continue
		case errors.Is(err, net.ErrClosed):
			return nil, net.ErrClosed
		case isOfPeer(err):
			continue
		case !isTemporary(err):
			return nil, err
		}
		delay = min(max(firstAcceptDelay, 2*delay), maxAcceptDelay)
		a.g.acceptFailed(err, delay)
		if !a.g.sleep(delay) {
			return nil, net.ErrClosed
		}
	}
}

// release gives the role to another worker, if this one has it and serves.
func (w *worker) release() {
	if w.state.Load() == serving && w.state.CompareAndSwap(serving, withoutRole) {
		w.a.handOver()
	}
}

// handOver gives the role to a worker that has nothing to do, or to a new one.
func (a *acceptor) handOver() {
	a.mu.Lock()
	n := len(a.idle)
	if n == 0 {
		a.mu.Unlock()
		a.start()
		return
	}
	w := a.idle[n-1]
	a.idle = a.idle[:n-1]
	a.mu.Unlock()
	w.state.Store(accepting)
	a.holder.Store(w)
	w.wake <- true
}

// park waits for the role. It reports false if the worker is not needed any more.
func (w *worker) park() bool {
	a := w.a
	a.mu.Lock()
	if a.done || len(a.idle) >= max(1, maxIdle/len(a.watch.acceptors)) {
		a.mu.Unlock()
		return false
	}
	a.idle = append(a.idle, w)
	a.mu.Unlock()
	return <-w.wake
}

// end closes the socket, lets the idle workers go, and the others when they are
// through. The role ends with it.
func (a *acceptor) end(err error) {
	_ = a.k.close()
	a.mu.Lock()
	a.done = true
	idle := a.idle
	a.idle = nil
	a.mu.Unlock()
	for _, w := range idle {
		w.wake <- false
	}
	a.ended(err)
}

// trim lets half of the idle workers go. The workers not needed since the last call are
// at the bottom of the list.
func (a *acceptor) trim() {
	a.mu.Lock()
	n := (len(a.idle) + 1) / 2
	gone := append([]*worker(nil), a.idle[:n]...)
	a.idle = append(a.idle[:0], a.idle[n:]...)
	a.mu.Unlock()
	for _, w := range gone {
		w.wake <- false
	}
}

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

// loop watches until over is closed.
func (w *watch) loop(over <-chan struct{}) {
	tick := time.NewTicker(watchTick)
	defer tick.Stop()
	seen := make([]sighting, len(w.acceptors))
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

// A sighting is what an acceptor was doing when the watch looked last.
type sighting struct {
	holder *worker
	seq    uint32
}

// at looks at an acceptor, and takes the role from who has served one connection
// since the last look. It reports whether anything has been accepted since then, or
// is being served by who has the role.
func (l *sighting) at(a *acceptor) (busy bool) {
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
