package tftp

import (
	"context"
	"errors"
	"sync"
	"time"
)

// stuckGrace is how long a server that ends waits for a store that answers
// none of its calls, such as a network file system whose server is gone.
const stuckGrace = 20 * time.Second

// ErrStuck says that a server ended although calls to its store, or to its
// Read and Write, had not returned. They close what they have opened when they do.
var ErrStuck = errors.New("tftp: the store does not answer")

// Serve takes requests until ctx ends or a socket fails. Then it gives running
// transfers the Grace to finish, ends the others, and closes the sockets. After
// [Listener.Retire] it also returns when the last transfer has ended.
func (l *Listener) Serve(ctx context.Context) error {
	defer l.Close()
	var scanners, receivers, loops sync.WaitGroup
	for range maxScanners {
		scanners.Go(func() { l.scanAll() })
	}
	l.workers.Start()
	go l.lines.Run()

	// Only the first failure is kept; report never waits.
	failed := make(chan error, 1)
	report := func(err error) {
		if err == nil { // it ended as asked
			return
		}
		select {
		case failed <- err:
		default:
		}
	}
	for _, b := range l.bindings {
		for i, conn := range b.requestSockets {
			receivers.Go(func() { report(b.serveRequests(conn, &b.counts[i])) })
		}
		for _, sh := range b.shards {
			loops.Go(func() { report(sh.run()) })
		}
	}

	var err error
	grace := l.Grace
	select {
	case <-ctx.Done():
	case limit := <-l.retired:
		grace, err = l.retire(ctx, limit, &receivers, &loops, failed)
	case err = <-failed:
	}
	for _, b := range l.bindings {
		closeSockets(b.requestSockets)
	}
	receivers.Wait()
	stuck := l.stopShards(&loops, grace)
	close(l.scans)
	if !stuck {
		scanners.Wait()
	}
	l.workers.End(stuck)
	if stuck && err == nil {
		err = ErrStuck
	}
	for sh := range l.allShards {
		sh.closeAbandoned()
	}
	l.logLine(line{})
	l.lines.Close()
	return err
}

// Alive reports whether each loop has taken a turn since it was asked last,
// and has it take one: for a watchdog, which asks now and then.
func (l *Listener) Alive() bool {
	alive := true
	for sh := range l.allShards {
		turns := sh.turns.Load()
		if turns == sh.asked.Swap(turns) {
			alive = false
		}
		sh.conn.Wake()
	}
	return alive
}

// stopShards ends the loops, at once when grace is over. It reports
// whether a job is out that may never return.
func (l *Listener) stopShards(loops *sync.WaitGroup, grace time.Duration) (stuck bool) {
	for sh := range l.allShards {
		sh.stop(draining)
	}
	ended := make(chan struct{})
	go func() {
		loops.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return false
	case <-time.After(grace):
	}
	l.halt()
	for sh := range l.allShards {
		sh.stop(halting)
	}
	select {
	case <-ended:
		return false
	case <-time.After(stuckGrace):
	}
	for sh := range l.allShards {
		sh.stop(abandoning)
	}
	<-ended
	return true
}

// ListenAndServe serves until ctx ends, and then gives running transfers the
// Grace to finish. Addresses are as for [Server.Listen].
func (s *Server) ListenAndServe(ctx context.Context, addrs ...string) error {
	l, err := s.Listen(ctx, addrs...)
	if err != nil {
		return err
	}
	return l.Serve(ctx)
}
