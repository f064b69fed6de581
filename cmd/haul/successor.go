package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// A restart: a server starts its successor, which takes the sockets over and is
// a new process of what may be a new program, and goes when its last transfer
// has ended. Who talks to either notices nothing. Three processes take part:
//
//	server     asks its starter for a successor, at SIGUSR2
//	starter    was started with the server, before that gave up its rights; only
//	           waits, until it starts the successor with the sockets it is given
//	successor  says "ready" when it could serve, and serves when it is told "go"
//
// docs/decisions/016 tells why. What passes between them are lines of text; each
// of the three may die at any time, which the others see as the end of a line.

const (
	// handedVar has the names of the sockets that a successor is handed, from
	// descriptor firstHanded on, separated by commas. What is before those is its
	// line to the predecessor.
	handedVar   = "HAUL_HANDED"
	firstHanded = 4

	// maxHanded is how many sockets are handed over. The kernel passes 253
	// descriptors at a time.
	maxHanded = 200

	// successionTime is how long a successor may take until it is ready.
	successionTime = time.Minute

	// retireTime is how long the transfers and connections of a server may run
	// on that has a successor. Then they end as at a signal.
	retireTime = time.Hour
)

// Services, as sockets are named by.
const (
	tftpName    = "tftp"
	sftpName    = "sftp"
	httpName    = "http"
	httpsName   = "https"
	metricsName = "metrics"
)

// A handed socket is one that goes from a server to its successor.
type handed struct {
	name string // of the service that it is for
	file *os.File
}

func closeHanded(all []handed) {
	for _, h := range all {
		_ = h.file.Close()
	}
}

// A restarter has a server succeeded. Nil is one that cannot be.
type restarter struct {
	starter *starter
	asked   <-chan os.Signal
	log     *slog.Logger
	sockets func() ([]handed, error) // of all services

	// handOver is called before a successor serves, with its number, and retire
	// when it does: what comes from then on is for it.
	handOver func(pid int)
	retire   func()

	next atomic.Pointer[successor] // nil until there is one
}

// retired reports whether there is a successor.
func (r *restarter) retired() bool { return r != nil && r.next.Load() != nil }

// over tells the successor, if there is one, that a service has come to its end. One
// that has gone, as after it was succeeded itself, waits for nothing.
func (r *restarter) over(service string) {
	if !r.retired() {
		return
	}
	err := r.next.Load().over(service)
	if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		r.log.Warn("restart: the successor is not to be told that a service has ended", "service", service, "error", err)
	}
}

// run waits for signals until ctx ends, or there is a successor. Whatever goes
// wrong until it has said that it is ready, this process serves on.
func (r *restarter) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.asked:
		}
		if r.starter == nil {
			r.log.Warn("restart: SIGUSR2 restarts a server that was started with --restartable, which this one was not")
			continue
		}
		r.log.Info("restart: starting a successor")
		next, err := r.succeed(ctx)
		if err != nil {
			r.log.Error("restart: there is no successor, and this process serves on", "error", err)
			continue
		}
		r.log.Info("restart: a successor serves from now on, and this process ends with its last transfer",
			"pid", next.pid, "at the latest in", retireTime)
		r.handOver(next.pid)
		if err := next.begin(); err != nil {
			// It has just said that it is ready. If it died since, somebody starts
			// another, as if we had been the one to die.
			r.log.Error("restart: the successor has gone", "error", err)
		}
		r.next.Store(next)
		r.retire()
		return
	}
}

// succeed starts a successor, and waits until it is ready.
func (r *restarter) succeed(ctx context.Context) (*successor, error) {
	sockets, err := r.sockets()
	if err != nil {
		return nil, err
	}
	defer closeHanded(sockets)
	if len(sockets) > maxHanded {
		return nil, fmt.Errorf("%d sockets are to be handed over, and %d are the most", len(sockets), maxHanded)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, successionTime, errNotReady)
	defer cancel()
	return r.starter.start(ctx, sockets)
}

var errNotReady = fmt.Errorf("the successor was not ready in %v", successionTime)

// Close lets go of the successor, which takes that for our end.
func (r *restarter) Close() error {
	if !r.retired() {
		return nil
	}
	return r.next.Load().Close()
}
