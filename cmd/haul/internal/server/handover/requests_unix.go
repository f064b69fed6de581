//go:build unix

package handover

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"golang.org/x/term"
)

// Requests receives requests for a successor. They come from SIGUSR2, from SIGHUP if reload is set,
// and from a predecessor. At most one request waits; further ones are merged with it.
type Requests struct {
	c         chan os.Signal
	terminals []int // the standard streams that were terminals when haul started
}

// hangups holds the Requests that SIGHUP is added to. It is nil while SIGHUP ends the process.
// Package main of cmd/haul receives the signal.
var hangups atomic.Pointer[Requests]

// NewRequests returns a Requests that receives the signals until Close.
func NewRequests(reload bool) *Requests {
	r := &Requests{c: make(chan os.Signal, 1)}
	signal.Notify(r.c, syscall.SIGUSR2)
	if reload {
		for fd := range 3 {
			if term.IsTerminal(fd) {
				r.terminals = append(r.terminals, fd)
			}
		}
		hangups.Store(r)
	}
	return r
}

// Close stops receiving the signals.
func (r *Requests) Close() {
	signal.Stop(r.c)
	hangups.CompareAndSwap(r, nil)
}

// add adds a request, unless a request is waiting already.
func (r *Requests) add() {
	select {
	case r.c <- syscall.SIGHUP:
	default: // a request is waiting already
	}
}

// TakeHangup reports whether a SIGHUP that has arrived is a request for a successor. If it is,
// TakeHangup adds the request; otherwise the signal ends the process. The signal is not a request
// if the terminal from which the server was started is gone.
func TakeHangup() bool {
	r := hangups.Load()
	if r == nil {
		return false
	}
	for _, fd := range r.terminals {
		if !term.IsTerminal(fd) {
			return false
		}
	}
	r.add()
	return true
}
