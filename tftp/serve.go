package tftp

import (
	"context"
	"errors"
	"sync"
	"time"
)

// stuckGrace is how long a server that shuts down waits for a store that does not answer, such as a
// network file system whose server is gone.
const stuckGrace = 20 * time.Second

// maxScanners is how many workers scan text files. Scans take a long time, and must not keep other
// transfers from opening their files.
const maxScanners = 2

// errStuck says that a server stopped before all calls to its store, or to its Read and Write, had
// returned. When such a call returns, the file that it has opened is closed.
var errStuck = errors.New("tftp: the store does not answer")

// Serve answers requests until ctx ends or a socket fails. Then running transfers have
// [Config].Grace to finish. Serve aborts the transfers that have not finished by then, and closes
// the sockets. After [Server.Retire] it also returns when the last transfer is over.
func (srv *Server) Serve(ctx context.Context) error {
	defer srv.Close()
	var scanners, receivers, loops sync.WaitGroup
	for range maxScanners {
		scanners.Go(func() { srv.scanAll() })
	}
	srv.workers.Start()
	go srv.lines.Run()

	// Only the first failure is kept; report never waits.
	failed := make(chan error, 1)
	report := func(err error) {
		if err == nil { // the goroutine returned because we stopped it
			return
		}
		select {
		case failed <- err:
		default:
		}
	}
	for _, b := range srv.bindings {
		for i, conn := range b.requestSockets {
			receivers.Go(func() { report(b.serveRequests(conn, &b.counts[i])) })
		}
		for _, sh := range b.shards {
			loops.Go(func() { report(sh.run()) })
		}
	}

	var err error
	grace := srv.config.Grace
	select {
	case <-ctx.Done():
	case limit := <-srv.retired:
		grace, err = srv.retire(ctx, limit, &receivers, &loops, failed)
	case err = <-failed:
	}
	for _, b := range srv.bindings {
		closeSockets(b.requestSockets)
	}
	receivers.Wait()
	stuck := srv.stopShards(&loops, grace)
	close(srv.scans)
	if !stuck {
		scanners.Wait()
	}
	srv.workers.End(stuck)
	if stuck && err == nil {
		err = errStuck
	}
	for sh := range srv.allShards {
		sh.closeAbandoned()
	}
	totals := srv.Counters()
	srv.few.Flush()
	srv.logLine(line{counters: &totals})
	srv.lines.Close()
	return err
}

// scanAll determines the netascii size of text files for their sessions.
func (srv *Server) scanAll() {
	for s := range srv.scans {
		s.Work()
		s.HandBack()
	}
}

// Alive reports whether each loop has taken a turn since the last call, and wakes each loop to take
// another one. A watchdog calls it regularly.
func (srv *Server) Alive() bool {
	alive := true
	for sh := range srv.allShards {
		turns := sh.turns.Load()
		if turns == sh.asked.Swap(turns) {
			alive = false
		}
		sh.conn.Wake()
	}
	return alive
}

// stopShards stops the loops. Their transfers have the time grace to finish, and are then aborted.
// It reports whether a worker is still busy with a job, which may never return.
func (srv *Server) stopShards(loops *sync.WaitGroup, grace time.Duration) (stuck bool) {
	for sh := range srv.allShards {
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
	srv.halt()
	for sh := range srv.allShards {
		sh.stop(halting)
	}
	select {
	case <-ended:
		return false
	case <-time.After(stuckGrace):
	}
	for sh := range srv.allShards {
		sh.stop(abandoning)
	}
	<-ended
	return true
}

// ListenAndServe serves until ctx is cancelled. Then running transfers have Grace to finish. For
// the format of addresses see [Config.Listen].
func (c *Config) ListenAndServe(ctx context.Context, addrs ...string) error {
	srv, err := c.Listen(ctx, addrs...)
	if err != nil {
		return err
	}
	return srv.Serve(ctx)
}
