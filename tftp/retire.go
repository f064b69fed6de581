package tftp

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/haul-project/haul/tftp/internal/packetio"
)

// Files returns duplicates of the sockets that receive requests, with one list for each of
// [Server.Addrs]. Another process can take over the requests by passing them to [Config.ListenAt].
// The caller closes them. Between [Server.Retire] of this process and Serve of the other, requests
// wait in the sockets.
//
// With SinglePort the packets of running transfers arrive at the same sockets, so the other process
// must not call Serve before Serve of this process has returned.
func (srv *Server) Files() (files [][]*os.File, err error) {
	defer func() {
		if err != nil {
			for _, f := range slices.Concat(files...) {
				_ = f.Close()
			}
			files = nil
		}
	}()
	for _, b := range srv.bindings {
		sockets := b.requestSockets
		for _, sh := range b.shards {
			if sh.takesRequests {
				sockets = append(slices.Clip(sockets), sh.conn)
			}
		}
		var same []*os.File
		for _, s := range sockets {
			f, err := packetio.Duplicate(s)
			if err != nil {
				return append(files, same), err
			}
			same = append(same, f)
		}
		files = append(files, same)
	}
	return files, nil
}

// Retire hands over to another process, which receives the requests on sockets that [Server.Files]
// duplicated. Serve then takes no more requests and lets the transfers under way complete. It
// returns when the last one has ended. After limit it ends the remaining transfers, without the
// Grace. If the context of Serve ends before that, they get the Grace. New requests are not
// refused: clients repeat them, and the other process answers.
func (srv *Server) Retire(limit time.Duration) {
	select {
	case srv.retired <- limit:
	default: // already called
	}
}

// retire waits for the end of the transfers under way. It returns how much longer the remaining
// ones may run.
func (srv *Server) retire(ctx context.Context, limit time.Duration, receivers, loops *sync.WaitGroup, failed <-chan error) (time.Duration, error) {
	for _, b := range srv.bindings {
		closeSockets(b.requestSockets)
	}
	receivers.Wait() // now the shards have all requests that were read
	for sh := range srv.allShards {
		sh.stop(retiring)
	}
	over := make(chan struct{})
	go func() {
		loops.Wait()
		close(over)
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-over:
		return srv.config.Grace, nil
	case <-ctx.Done():
		return srv.config.Grace, nil
	case err := <-failed:
		return srv.config.Grace, err
	case <-timer.C:
		return 0, nil
	}
}
