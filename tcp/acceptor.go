package tcp

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/tcp/internal/admission"
	"github.com/haul-project/haul/tcp/internal/conns"
	"github.com/haul-project/haul/tcp/internal/drive"
)

// An acceptor accepts connections from one listening socket and serves them.
//
// One of its workers has the role of accepting. The worker that accepts a connection also serves
// it: for short requests that is cheaper than waking another goroutine. Before a handler waits for
// its peer, its worker passes the role to another worker. If a handler computes, or waits for
// something else, the watch takes the role away from it.
type acceptor struct {
	g      *opener
	watch  *watch
	ended  func(error) // called when it accepts no more
	k      *kernel
	roster *conns.Roster
	loop   drive.Loop // if not nil, serves the connections in place of workers

	holder atomic.Pointer[worker] // has the role
	eager  atomic.Int64           // until this time, in nanoseconds of Unix time, a worker passes the role on before it serves
	spare  *conns.Conn            // for the next connection; belongs to the accepting worker
	slab   []Conn                 // unused handles; belongs to the accepting worker

	mu   sync.Mutex
	idle []*worker // mu: the last one was busy most recently
	done bool      // mu: no more workers are needed
	work sync.WaitGroup
}

const (
	// maxIdle is how many idle workers all acceptors of a run keep. Their stacks have grown to the
	// size that the handler needs: at 8 KiB each, 8 MiB in all. Half of them end every few seconds:
	// see trimTime.
	maxIdle = 1024

	// handleSlab is how many handles are allocated at a time.
	handleSlab = 32
)

// A worker is a goroutine that accepts or serves.
type worker struct {
	a     *acceptor
	state atomic.Int32
	seq   atomic.Uint32 // connections it has started to serve
	wake  chan bool     // passes it the role; false ends the worker
	wait  func()        // release, made once
}

// The states of a worker.
const (
	withoutRole = iota // it has no role
	accepting          // it has the role, and waits for a connection
	serving            // it has the role, and any other worker may take it
)

func (a *acceptor) newWorker() *worker {
	w := &worker{a: a, wake: make(chan bool, 1)}
	w.wait = w.release
	return w
}

// socket returns the listening socket and its server, for a loop.
func (a *acceptor) socket() *drive.Socket {
	return &drive.Socket{
		FD: a.k.descriptor(), Gate: &a.g.Gate, Roster: a.roster,
		Stopped:   a.k.isStopped,
		Accepted:  func() { a.watch.asleep.Store(false) },
		End:       a.end,
		Go:        a.work.Go,
		NewHandle: func(c *conns.Conn) drive.Handle { return &Conn{c: c, gen: c.Gen()} },
		Reject:    func(c *conns.Conn, h drive.Handle, err error) { a.g.reject(c, h.(*Conn), err) },
	}
}

// useLoop makes a loop serve the connections.
func (a *acceptor) useLoop(l drive.Loop) {
	a.loop = l
	a.watch.asleep.Store(true) // until a connection is accepted
	a.k.onStop(l.Wake)
}

// wakeLoop makes the loop, if there is one, notice the end.
func (a *acceptor) wakeLoop() {
	if a.loop != nil {
		a.loop.Wake()
	}
}

// start starts a worker that has the role.
func (a *acceptor) start() {
	w := a.newWorker()
	w.state.Store(accepting)
	a.holder.Store(w)
	a.work.Go(w.loop)
}

// loop runs a worker, which has the role at first.
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
		if a.watch.asleep.Load() { // after serving is stored: the watch reads the two in the opposite order
			a.watch.rouse()
		}
		if until := a.eager.Load(); until != 0 && time.Now().UnixNano() < until {
			w.release()
		}
		c.OnWait(w.wait)
		a.g.serve(c, h)
		if !w.state.CompareAndSwap(serving, accepting) && !w.park() {
			over = true
			return
		}
	}
}

// handle returns a handle for the connection that c will serve.
func (a *acceptor) handle(c *conns.Conn) *Conn {
	if len(a.slab) == 0 {
		a.slab = make([]Conn, handleSlab)
	}
	h := &a.slab[0]
	a.slab = a.slab[1:]
	h.c, h.gen = c, c.Gen()
	return h
}

// next accepts a connection that may be served. An error means that accepting has ended.
func (a *acceptor) next() (*conns.Conn, error) {
	delay := time.Duration(0)
	for {
		if a.spare == nil {
			a.spare = a.roster.Take()
		}
		err := a.k.accept(a.spare)
		if err == nil && a.g.Admit(a.spare) {
			c := a.spare
			a.spare = nil
			a.roster.Enter(c)
			return c, nil
		}
		switch {
		case err == nil: // not admitted
			a.spare.Discard()
			continue
		case errors.Is(err, net.ErrClosed):
			return nil, net.ErrClosed
		case admission.IsOfPeer(err):
			continue
		case !admission.IsTemporary(err):
			return nil, err
		}
		delay = a.g.Failed(err, delay)
		if !a.g.sleep(delay) {
			return nil, net.ErrClosed
		}
	}
}

// release passes the role to another worker if this one has it and is serving.
func (w *worker) release() {
	if w.state.Load() == serving && w.state.CompareAndSwap(serving, withoutRole) {
		w.a.handOver()
	}
}

// handOver passes the role to an idle worker, or to a new one.
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

// park waits for the role. It reports false if the worker is no longer needed.
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

// end closes the socket, and ends the idle workers. Busy workers end after their
// connection.
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

// trim ends half of the idle workers. The workers that were not needed since the last call are
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

// A watch takes the role of accepting from workers that keep it too long because their handler
// computes, or waits for something other than its connection.
type watch struct {
	acceptors []*acceptor
	asleep    atomic.Bool
	wake      chan struct{} // its buffer has room for one
}

const (
	// watchTick is how often the watch checks. One connection may delay the next for twice as long.
	watchTick = time.Millisecond

	// eagerTime is how long an acceptor passes the role on before it serves, after a worker has
	// kept the role for too long.
	eagerTime = time.Second

	// drowsyTicks is the number of ticks without a new connection after which the watch sleeps
	// until the next one.
	drowsyTicks = 16

	// trimTime is how often idle workers are trimmed.
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

// sleep waits until a connection is accepted, and trims idle workers meanwhile. It
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

// A sighting is the state of an acceptor when the watch last checked it.
type sighting struct {
	holder *worker
	seq    uint32
}

// at checks an acceptor, and takes the role from a worker that has served the same connection since
// the last check. It reports whether a connection was accepted since then, or the worker with the
// role is serving one.
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
