package handover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"syscall"
	"time"
)

// A Restarter starts a child on request, and lets the child take over from this server. A nil
// Restarter never starts a child.
type Restarter struct {
	Spawner     *Spawner // starts the children; nil means that requests are refused
	Requests    *Requests
	Predecessor *Predecessor // the process that passes requests on to this one; nil if no server ran before
	Log         *slog.Logger
	Sockets     func() ([]Socket, error) // returns the sockets of all services
	Reload      bool                     // a child reads new settings from a file, so SIGHUP is a request too

	// ReadyTime bounds two waits: until a child is ready, and then until it serves.
	ReadyTime time.Duration

	// HandOver is called with the process ID of a child that serves, before the child reports to
	// the service manager.
	HandOver func(pid int)

	// Retire is called after HandOver. From then on the child accepts new connections.
	Retire func()

	// History, if it is set, is called after Retire. It returns the history for the child: see
	// [Predecessor]. A history of more than MaxHistory bytes is not sent.
	History func() []byte

	next   atomic.Pointer[child] // the child that has taken over; nil before that
	failed atomic.Bool           // the latest request has failed to start a child
}

// Retired reports whether a child has taken over.
func (r *Restarter) Retired() bool { return r != nil && r.next.Load() != nil }

// Failed reports whether the latest request has failed to start a child.
func (r *Restarter) Failed() bool { return r.failed.Load() }

// Ended reports to the child, if there is one, that a service of this process has ended. If the
// child has exited, for instance after a restart of its own, nobody waits for the report, so the
// error is not logged then.
func (r *Restarter) Ended(service string) {
	if !r.Retired() {
		return
	}
	err := r.next.Load().ended(service)
	if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		r.Log.Warn("restart: cannot report to the successor that a service has ended", "service", service, "error", err)
	}
}

// Run handles requests until ctx ends. If anything fails before the child serves, this process
// continues to serve. Once the child serves, Run passes requests on to it.
func (r *Restarter) Run(ctx context.Context) {
	gone := r.Spawner.gone()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-r.Requests.c:
			r.handle(ctx)
		case <-gone:
			gone = nil
			if !r.Retired() && ctx.Err() == nil {
				r.Log.Error("restart: this process serves on, but can have no successor until it is stopped and started", "error", errSpawnerGone)
			}
		}
	}
	// After Hangup, the predecessor can no longer pass requests on to this process, so it logs
	// further requests as lost.
	r.Predecessor.Hangup()
	select {
	case <-r.Requests.c:
		if r.Retired() {
			r.passOn()
		}
	default:
	}
}

func (r *Restarter) handle(ctx context.Context) {
	switch {
	case r.Retired():
		r.passOn()
		return
	case r.Spawner == nil:
		r.failed.Store(true)
		r.Log.Warn("restart: SIGUSR2 restarts a server that was started with --restartable, which this one was not")
		return
	}
	r.Log.Info("restart: starting a successor")
	next, err := r.spawn(ctx)
	r.failed.Store(err != nil)
	if err != nil {
		failed := "restart: there is no successor, and this process continues to serve"
		if r.Reload {
			failed = "reload: there is no successor, and this process continues to serve with the previous configuration"
		}
		r.Log.Error(failed, "error", err)
		return
	}
	r.Log.Info("restart: a successor serves from now on, and this process ends with its last transfer",
		"pid", next.pid, "at the latest in", RetireTime)
	r.next.Store(next)
	r.HandOver(next.pid)
	r.Ended(manager)
	r.Retire()
	if r.History != nil {
		if err := next.remember(r.History()); err != nil {
			r.Log.Warn("restart: the successor does not get what the status page has of the past", "error", err)
		}
	}
}

// passOn passes a request on to the child. The sender of the request may not have known about the
// child yet, so without passOn the request would be lost.
func (r *Restarter) passOn() {
	next := r.next.Load()
	if err := next.again(); err != nil {
		r.Log.Warn("restart: this process has a successor, and cannot pass the request on to it; send the signal to the newest process of haul",
			"pid", next.pid, "error", err)
		return
	}
	r.Log.Info("restart: this process has a successor, which gets the request", "pid", next.pid)
}

// spawn starts a child, and waits until it serves.
func (r *Restarter) spawn(ctx context.Context) (*child, error) {
	sockets, err := r.Sockets()
	if err != nil {
		return nil, err
	}
	defer CloseSockets(sockets)
	if len(sockets) > maxHanded {
		return nil, fmt.Errorf("hand over %d sockets: at most %d can be", len(sockets), maxHanded)
	}
	limit := cmp.Or(r.ReadyTime, readyTime)
	soon, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the successor was not ready in %v", limit))
	defer cancel()
	next, err := r.Spawner.start(soon, sockets)
	if err != nil {
		return nil, err
	}
	soon, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("the successor did not serve in %v", limit))
	defer cancel()
	return next, r.Spawner.begin(soon, next)
}

// Close closes the line to the child. The child concludes from it that this process has ended.
func (r *Restarter) Close() error {
	if !r.Retired() {
		return nil
	}
	return r.next.Load().Close()
}
