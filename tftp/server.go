package tftp

import (
	"context"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/internal/linequeue"
	"github.com/haul-project/haul/tftp/internal/fileio"
	"github.com/haul-project/haul/tftp/internal/packetio"
)

// A Server is a TFTP server with open sockets. [Config.Listen] opens them, and [Server.Serve]
// answers requests.
type Server struct {
	config   Config // with defaults in place of zero fields
	tests    testHooks
	bindings []*binding
	guard    guard

	bandwidth bandwidth
	memory    pool
	files     fileio.SharedFiles // open files of transfers
	began     time.Time

	ctx  context.Context // cancelled when all transfers must stop
	halt context.CancelFunc

	workers  fileio.Workers       // for all jobs except scans
	scans    chan fileio.JobOwner // scans that wait for a scanner
	lines    *linequeue.Queue[line]
	few      linequeue.Budget // bounds the lines that strangers can cause
	totals   []*totals
	crashes  atomic.Int64 // caught panics
	count    atomic.Int64 // transfers under way
	retired  chan time.Duration
	dallying atomic.Int64 // finished transfers that still answer repeated packets
}

// testHooks are set only by tests of this package.
type testHooks struct {
	// open replaces packetio.Open; the path MTU is then looked up only if mtu is set.
	open   packetio.Opener
	mtu    func(netip.Addr) (int, error) // replaces udp.PathMTU
	spread bool                          // all loops count as busy, so each gets its share of transfers
}

// A line is one line of the log. A line with counters says that the server has stopped.
type line struct {
	transfer *Transfer
	crash    error  // a caught panic in a transfer or a hook
	leftOut  int64  // how many lines were left out
	last     string // the peer of the last line that was left out
	counters *Counters
}

// admit counts a new transfer and reports true, unless there are too many.
func (srv *Server) admit() bool {
	if srv.count.Add(1) > int64(srv.config.MaxTransfers) {
		srv.count.Add(-1)
		return false
	}
	return true
}

// displace counts a transfer that replaces another one, for which a worker may still do a job. The
// number of replaced transfers is limited to MaxTransfers as well, because otherwise a store that
// hangs would collect jobs without bound.
func (srv *Server) displace() bool {
	if srv.count.Add(1) > 2*int64(srv.config.MaxTransfers) {
		srv.count.Add(-1)
		return false
	}
	return true
}

// leave removes a transfer that admit or displace has counted.
func (srv *Server) leave() { srv.count.Add(-1) }
