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
// Its workers take turns at accepting: one of them at a time has the role of accepting. The worker
// that accepts a connection also serves it, because for short requests that is cheaper than waking
// another goroutine. Before a handler waits for its peer, its worker passes the role to another
// worker. If a handler computes for long, or waits for something other than its peer, the watch
// takes the role away from its worker.
type acceptor struct {
	g      *opener
	watch  *watch
	ended  func(error) // called once, when no more connections are accepted
	k      *kernel
	roster *conns.Roster
	loop   drive.Loop // if not nil, serves the connections in place of workers

	holder atomic.Pointer[worker] // the worker that has the role of accepting
	// eager is a time, in nanoseconds of Unix time. Until then, a worker that has accepted a
	// connection passes on the role of accepting before it serves that connection.
	eager atomic.Int64
	spare *conns.Conn // memory for the next connection; only the accepting worker uses it
	slab  []Conn      // unused handles; only the accepting worker uses them

	mu   sync.Mutex
	idle []*worker // idle workers, in the order in which they became idle. Guarded by mu
	done bool      // accepting has stopped, so workers that become idle exit. Guarded by mu
	work sync.WaitGroup
}

const (
	// maxIdle is how many idle workers all acceptors of a run keep together. An idle worker keeps
	// the stack that its handlers needed: with 8 KiB each, all idle workers keep 8 MiB. Half of them
	// exit every few seconds: see trimTime.
	maxIdle = 1024

	// handleSlab is how many handles are allocated at a time.
	handleSlab = 32
)

// A worker is a goroutine that accepts or serves.
type worker struct {
	a     *acceptor
	state atomic.Int32
	seq   atomic.Uint32 // number of connections that this worker has started to serve
	wake  chan bool     // true passes the role to the worker; false makes it exit
	wait  func()        // the method value w.release, created once to save an allocation for each connection
}

// The states of a worker. At most one worker of an acceptor has the role of accepting.
const (
	withoutRole = iota // the worker does not have the role of accepting
	accepting          // the worker has the role of accepting, and waits for a connection
	serving            // the worker has the role, but serves a connection: any goroutine may take the role from it
)

func (a *acceptor) newWorker() *worker {
	w := &worker{a: a, wake: make(chan bool, 1)}
	w.wait = w.release
	return w
}

// socket describes the listening socket and its server to a loop.
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

// useLoop makes a loop serve the connections, in place of workers.
func (a *acceptor) useLoop(l drive.Loop) {
	a.loop = l
	// The watch does not run with loops, so its field asleep serves another purpose: while it is set,
	// no connection has been accepted yet. Socket.close passes that on to kernel.stop.
	a.watch.asleep.Store(true)
	a.k.onStop(l.Wake)
}

// wakeLoop makes the loop, if there is one, notice that the server is ending or that connections
// were cut.
func (a *acceptor) wakeLoop() {
	if a.loop != nil {
		a.loop.Wake()
	}
}

// start starts a new worker with the role of accepting.
func (a *acceptor) start() {
	w := a.newWorker()
	w.state.Store(accepting)
	a.holder.Store(w)
	a.work.Go(w.loop)
}

// loop runs a worker, which begins with the role of accepting.
func (w *worker) loop() {
	a := w.a
	over := false
	defer func() {
		if !over { // a handler has called runtime.Goexit, which ends this goroutine: another worker must accept
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
		// asleep is checked only after serving is stored, because the watch reads the two in the
		// opposite order.
		if a.watch.asleep.Load() {
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

// handle returns a handle for the connection that was accepted into c.
func (a *acceptor) handle(c *conns.Conn) *Conn {
	if len(a.slab) == 0 {
		a.slab = make([]Conn, handleSlab)
	}
	h := &a.slab[0]
	a.slab = a.slab[1:]
	h.c, h.gen = c, c.Gen()
	return h
}

// next accepts connections until the gate admits one of them, and returns that one. After an error,
// no more connections are accepted.
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
		case err == nil: // the gate has refused the connection
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

// release passes the role of accepting to another worker, if this worker has it and is serving.
func (w *worker) release() {
	if w.state.Load() == serving && w.state.CompareAndSwap(serving, withoutRole) {
		w.a.handOver()
	}
}

// handOver passes the role of accepting to an idle worker, or to a new one.
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

// park makes the worker idle until it gets the role of accepting. It returns false if the worker
// should exit.
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

// end closes the socket and makes the idle workers exit. Busy workers exit after their current
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

// trim makes half of the idle workers exit: those that have been idle for longest, which are at the
// beginning of the list.
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
	wake      chan struct{} // wakes the watch; has room for one element, so sending never waits
}

const (
	// watchTick is the interval at which the watch checks the acceptors. A connection may have to
	// wait for up to two ticks while a handler holds the role.
	watchTick = time.Millisecond

	// eagerTime applies after a worker has kept the role of accepting for too long. For this time,
	// the workers of the acceptor pass the role on before they serve.
	eagerTime = time.Second

	// drowsyTicks is the number of ticks without a new connection after which the watch sleeps
	// until the next connection.
	drowsyTicks = 16

	// trimTime is the interval at which idle workers are trimmed.
	trimTime = 5 * time.Second
)

// rouse wakes the watch if it sleeps. A worker calls it after it has accepted a connection.
func (w *watch) rouse() {
	if w.asleep.CompareAndSwap(true, false) {
		w.wake <- struct{}{}
	}
}

// loop checks the acceptors at each tick, until over is closed.
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
		for i, a := range w.acceptors { // a worker that accepted before asleep was set did not wake the watch
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

// sleep waits until a connection is accepted, and meanwhile trims idle workers. It returns false if
// over is closed first.
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

// A sighting records which worker had the role of accepting at the last tick, and how many
// connections that worker had begun to serve.
type sighting struct {
	holder *worker
	seq    uint32
}

// at checks an acceptor. If the worker with the role has been serving the same connection since the
// last check, at takes the role from it. It reports whether the acceptor is busy: a connection was
// accepted since the last check, or the worker with the role is serving one.
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
