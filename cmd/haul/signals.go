package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// sameSignal is how soon a second signal is still the first: some programs,
// timeout(1) for one, signal a process and its group.
const sameSignal = 100 * time.Millisecond

// interruptible returns a context that the first SIGINT, SIGTERM or SIGHUP ends. The
// second ends the process. A signal that was ignored when haul was started, as by
// nohup(1) and by shells in the background, stays ignored: Notify would undo that.
func interruptible() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go func() {
		s := <-signals
		first := time.Now()
		cancel(caughtSignal{s})
		for <-signals; time.Since(first) < sameSignal; <-signals {
		}
		fmt.Fprintln(os.Stderr, "haul: second signal, ending at once")
		os.Exit(exitInterrupted)
	}()
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}

// A caughtSignal is why the context of [interruptible] has ended. It is a
// [context.Canceled] to all who do not ask which signal it was.
type caughtSignal struct{ signal os.Signal }

// Signal returns the signal, for the log of a server.
func (c caughtSignal) Signal() os.Signal { return c.signal }

func (caughtSignal) Error() string { return context.Canceled.Error() }

func (caughtSignal) Unwrap() error { return context.Canceled }
