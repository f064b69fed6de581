package handover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"
)

// A Restarter has a child take over from this server. A nil Restarter never does.
type Restarter struct {
	Spawner  *Spawner         // nil: requests are refused
	Requests <-chan os.Signal // see [Requests]
	Log      *slog.Logger
	Sockets  func() ([]Socket, error) // of all services

	// HandOver is called with the process number of the child, before that serves.
	HandOver func(pid int)

	// Retire is called when the child serves: new connections are for it.
	Retire func()

	next atomic.Pointer[child] // nil until there is one
}

// Retired reports whether a child has taken over.
func (r *Restarter) Retired() bool { return r != nil && r.next.Load() != nil }

// Ended reports to the child, if there is one, that a service of this process has ended.
// A child that is gone, as after a restart of its own, waits for nothing.
func (r *Restarter) Ended(service string) {
	if !r.Retired() {
		return
	}
	err := r.next.Load().ended(service)
	if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		r.Log.Warn("restart: cannot report to the successor that a service has ended", "service", service, "error", err)
	}
}

// Run waits for requests until ctx ends, or a child serves. This process continues to
// serve if anything fails before the child is ready.
func (r *Restarter) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.Requests:
		}
		if r.Spawner == nil {
			r.Log.Warn("restart: SIGUSR2 restarts a server that was started with --restartable, which this one was not")
			continue
		}
		r.Log.Info("restart: starting a successor")
		next, err := r.spawn(ctx)
		if err != nil {
			r.Log.Error("restart: there is no successor, and this process continues to serve", "error", err)
			continue
		}
		r.Log.Info("restart: a successor serves from now on, and this process ends with its last transfer",
			"pid", next.pid, "at the latest in", RetireTime)
		r.HandOver(next.pid)
		if err := next.begin(); err != nil {
			// It was ready a moment ago. If it has died since, the service manager
			// starts another, as if this process had died.
			r.Log.Error("restart: the successor has died", "error", err)
		}
		r.next.Store(next)
		r.Retire()
		return
	}
}

// spawn starts a child, and waits until it is ready.
func (r *Restarter) spawn(ctx context.Context) (*child, error) {
	sockets, err := r.Sockets()
	if err != nil {
		return nil, err
	}
	defer CloseSockets(sockets)
	if len(sockets) > maxHanded {
		return nil, fmt.Errorf("hand over %d sockets: at most %d can be", len(sockets), maxHanded)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readyTime, errNotReady)
	defer cancel()
	return r.Spawner.start(ctx, sockets)
}

var errNotReady = fmt.Errorf("the successor was not ready in %v", readyTime)

// Close closes the line to the child, which takes that for the end of this process.
func (r *Restarter) Close() error {
	if !r.Retired() {
		return nil
	}
	return r.next.Load().Close()
}
