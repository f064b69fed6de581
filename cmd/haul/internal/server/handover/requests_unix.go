//go:build unix

package handover

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"golang.org/x/term"
)

// Requests ask for a successor: SIGUSR2, with reload SIGHUP too, and what a
// predecessor passes on. One waits; another that comes meanwhile is the same.
type Requests struct {
	c         chan os.Signal
	terminals []int // standard streams that were terminals in the beginning
}

// hangups takes SIGHUP, which cmd/haul receives. It is nil while that ends the process.
var hangups atomic.Pointer[Requests]

// NewRequests takes the signals from now on, until Close.
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

// Close leaves the signals alone.
func (r *Requests) Close() {
	signal.Stop(r.c)
	hangups.CompareAndSwap(r, nil)
}

// add adds a request.
func (r *Requests) add() {
	select {
	case r.c <- syscall.SIGHUP:
	default: // one waits
	}
}

// TakeHangup reports whether a SIGHUP, which has arrived, is a request for a successor.
// Otherwise it ends the process. It does so too if the terminal is gone from which the
// server was started.
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
