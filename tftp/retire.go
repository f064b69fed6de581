package tftp

import (
	"context"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/haul-project/haul/tftp/internal/packetio"
)

// Files returns duplicates of the sockets that receive requests, one list for each item of
// [Server.Addrs]. To take over the requests, another process passes them to [Config.ListenAt]. The
// caller closes the files. Between [Server.Retire] of this process and Serve of the other process,
// requests wait in the sockets.
//
// With SinglePort, the packets of transfers under way arrive at the same sockets. So the other
// process must not call Serve before Serve of this process has returned.
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

// Retire lets another process take over. That process receives requests on the duplicates of the
// sockets that [Server.Files] returned. Serve then takes no more requests, and returns when the
// last transfer under way has ended. Transfers that have not ended after the time limit are aborted
// at once, without the Grace. If the context of Serve is cancelled before that, they get the Grace.
// New requests are not refused: clients repeat them, and the other process answers.
func (srv *Server) Retire(limit time.Duration) {
	select {
	case srv.retired <- limit:
	default: // Retire was called before
	}
}

// retire waits until the transfers under way have ended, the time limit is over, a socket has
// failed, or ctx is cancelled. It returns how long the remaining transfers may still take, and the
// error of a failed socket.
func (srv *Server) retire(ctx context.Context, limit time.Duration, receivers, loops *sync.WaitGroup, failed <-chan error) (time.Duration, error) {
	for _, b := range srv.bindings {
		closeSockets(b.requestSockets)
	}
	receivers.Wait() // the shards then have all requests that were read from the sockets
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
