package tftp

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/internal/linequeue"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/internal/packetio"
)

// A Server is a running server of files over TFTP: [Config.Listen] opens its sockets, and
// [Server.Serve] answers requests.
type Server struct {
	config   Config // with defaults
	tests    testHooks
	bindings []*binding
	guard    guard

	bandwidth bandwidth
	memory    pool
	files     store.SharedFiles // open files of transfers
	began     time.Time

	ctx  context.Context // ends when transfers must
	halt context.CancelFunc

	workers  fileio.Workers       // workers for all jobs but scans
	scans    chan fileio.JobOwner // for scanners
	lines    *linequeue.Queue[line]
	totals   []*totals
	crashes  atomic.Int64 // caught panics
	count    atomic.Int64 // transfers under way
	retired  chan time.Duration
	dallying atomic.Int64 // transfers that are over but still answer repeats
}

// testHooks are set only by tests of this package.
type testHooks struct {
	open   packetio.Opener               // in place of packetio.Open; without mtu, no MTU is asked for
	mtu    func(netip.Addr) (int, error) // in place of udp.PathMTU
	spread bool                          // all loops count as busy, so each gets its share of transfers
}

// A line is one line of the log. Without a transfer or crash it says that the server has ended.
type line struct {
	transfer *Transfer
	crash    error // or a hook's panic
	counters *Counters
}

// admit counts a new transfer, unless there are too many.
func (srv *Server) admit() bool {
	if srv.count.Add(1) > int64(srv.config.MaxTransfers) {
		srv.count.Add(-1)
		return false
	}
	return true
}

// displace counts a transfer that replaces another one, which may still wait for its job. Their
// number is limited to MaxTransfers as well, or a store that hangs would collect jobs without
// bound.
func (srv *Server) displace() bool {
	if srv.count.Add(1) > 2*int64(srv.config.MaxTransfers) {
		srv.count.Add(-1)
		return false
	}
	return true
}

// leave undoes admit.
func (srv *Server) leave() { srv.count.Add(-1) }
