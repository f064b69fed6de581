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
	r      *run
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
	without   = iota // it has not got the role
	accepting        // it has, and waits for a connection
	serving          // it has, and anybody may take it away
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
	a.work.Go(w.run)
}

// run is a worker's life. It begins with the role.
func (w *worker) run() {
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
		a.r.awaitAccept()
		w.seq.Add(1)
		w.state.Store(serving)
		if a.r.watch.asleep.Load() { // after serving is stored: it looks the other way round
			a.r.watch.rouse()
		}
		if until := a.eager.Load(); until != 0 && time.Now().UnixNano() < until {
			w.release()
		}
		c.onWait = w.wait
		a.r.serve(c, h)
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
		err := a.k.accept(a.spare)
		if err == nil && a.r.admit(a.spare) {
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
		a.r.acceptFailed(err, delay)
		if !a.r.sleep(delay) {
			return nil, net.ErrClosed
		}
	}
}

// release gives the role to another worker, if this one has it and serves.
func (w *worker) release() {
	if w.state.Load() == serving && w.state.CompareAndSwap(serving, without) {
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
	if a.done || len(a.idle) >= max(1, maxIdle/len(a.r.acceptors)) {
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
	a.r.acceptorEnded(err)
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
