package tftp

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/packetio"
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// Uploads says which files of a [Server]'s Store clients may write.
type Uploads uint8

// The kinds of uploads a server takes.
const (
	NoUploads        Uploads = iota // none
	CreateUploads                   // new files; no existing file is touched
	OverwriteUploads                // new files, and new content for existing ones
)

// Defaults of a Server.
const (
	DefaultMaxTransfers = 16384
	DefaultMaxUpload    = 16 << 30  // bytes
	DefaultMemory       = 128 << 20 // bytes
	DefaultRate         = 1000      // requests a second, from one address
	DefaultGrace        = 10 * time.Second

	// DefaultWindow is the largest window confirmed: enough for 3 ms at
	// 100 MB/s in blocks of 1432 bytes. It is also what a forged request and a
	// forged ACK 0 can aim at a victim.
	DefaultWindow = 256
)

// A Server serves files over TFTP: those of a Store, or those that Read and
// Write supply. A zero Server with one of these is ready for use. Its fields
// must not change once it listens.
type Server struct {
	// Store is what is served where Read and Write are nil. Names are cleaned
	// by [store.CleanName].
	Store  store.Store
	Upload Uploads // which files of the Store may be written

	// Read answers a request for a file, and Write one to store a file. Both
	// may wait, since workers call them; how long the file may take, ctx says:
	// it ends with the transfer. The file is closed when the transfer is over.
	//
	// An error becomes an ERROR packet, with the code that fits: a
	// *[transfer.Error] is sent as it is, fs.ErrNotExist, fs.ErrExist,
	// fs.ErrPermission and store.ErrNoSpace have codes of their own, and the
	// text of any other error stays here.
	//
	// Write should pass [Request.Announced] to its store, so that an upload that
	// does not fit is refused at once.
	//
	// An Upload may have a method StoredName() string: the name that the file
	// gets, for the log, if that is not the client's.
	Read  func(ctx context.Context, r *Request) (store.File, error)
	Write func(ctx context.Context, r *Request) (store.Upload, error)

	// Started is called when packets begin to flow, and Ended when a transfer
	// is over, with an outcome and figures; also, without Started, for a request
	// that was refused. Both get the same *Transfer. An event loop calls them:
	// what takes longer than a microsecond belongs to another goroutine.
	Started func(*Transfer)
	Ended   func(*Transfer)

	// TurnedAway is called when requests were turned away by a limit, and so
	// became no transfers: Ended sees only some of them, to spare the log.
	// Loops call it, as they do the others.
	TurnedAway func(why Reason, n int64)

	// Limits bounds what is agreed on with clients; a zero Window means
	// DefaultWindow, other zero fields the whole range of the RFCs.
	Limits transfer.Limits

	// Refuse has options that some clients do not get: those of all rules for a client.
	// Rollover has what clients expect behind block 65535 that do not ask for it: the
	// first rule for a client counts. Without one it is Limits.Rollover.
	Refuse   []Refusal
	Rollover []RolloverRule

	// MTU holds block sizes down, so that packets need no fragments, which
	// boot ROMs cannot join. 0 asks the kernel for each peer's path, above 0
	// it is the size of an IP packet in bytes, below 0 nothing is held down.
	MTU int

	SinglePort bool   // answer from the port that was asked: for NAT and containers
	FirstPort  uint16 // the range that transfers take their ports from;
	LastPort   uint16 // 0 lets the kernel choose

	MaxUpload    int64          // largest upload in bytes; 0 means DefaultMaxUpload
	MaxTransfers int            // at the same time; 0 means DefaultMaxTransfers
	MaxPerClient int            // at the same time, from one address; 0 means MaxTransfers
	MaxFiles     int            // files and uploads open at the same time; a file counts once, however many read it; 0 means no limit
	Rate         int            // requests a second from one address; 0 means DefaultRate but for loopback, below 0 no limit
	Bandwidth    int64          // bytes of data a second each way, of all transfers; 0 means no limit
	Memory       int64          // most bytes that transfers hold in buffers; 0 means DefaultMemory
	Allow        []netip.Prefix // who may ask; empty means everybody
	Deny         []netip.Prefix // and who of those may not

	// BandwidthPerClient is the same for the transfers of one address. Both delay packets
	// and drop none, and no packet for more than half a second: if a rate is too low for
	// its transfers, it is exceeded.
	BandwidthPerClient int64

	// Loops is how many event loops there are for each address, at most; 0
	// means one for two CPUs. A loop is used when those before it are busy.
	Loops int

	Grace time.Duration // how long transfers may run on after the end, and calls to a store that hangs 20 s more; 0 means DefaultGrace
	Log   *slog.Logger  // one line for each transfer; nil logs nothing
	Plain bool          // use no kernel offloads, as if there were none

	// Trace, if set, sees each datagram that comes and goes. Any loop may call
	// it, and it must not keep the data.
	Trace func(at time.Time, sent bool, peer, local netip.AddrPort, data []byte)

	open   func(context.Context, netip.AddrPort, udp.Config) (packetio.Socket, error) // for tests
	mtu    func(netip.Addr) (int, error)                                              // for tests
	spread bool                                                                       // for tests: all loops count as busy, so each gets its share
}

// check reports settings that make no sense.
func (s *Server) check() error {
	switch {
	case s.Store == nil && s.Read == nil && s.Write == nil:
		return fmt.Errorf("tftp: server has nothing to serve: set Store, Read or Write")
	case s.Bandwidth < 0 || s.BandwidthPerClient < 0:
		return fmt.Errorf("tftp: a bandwidth of %d bytes a second, and %d for each client: neither may be negative", s.Bandwidth, s.BandwidthPerClient)
	case slices.ContainsFunc(s.Rollover, func(r RolloverRule) bool { return r.Rollover > transfer.RolloverOne }):
		return fmt.Errorf("tftp: a rule for the rollover is for RolloverZero or RolloverOne")
	case s.FirstPort > s.LastPort:
		return fmt.Errorf("tftp: ports %d to %d are no range", s.FirstPort, s.LastPort)
	case s.FirstPort == 0 && s.LastPort != 0:
		return fmt.Errorf("tftp: ports %d to %d: a range begins above 0", s.FirstPort, s.LastPort)
	case s.SinglePort && s.LastPort != 0:
		return fmt.Errorf("tftp: a port range and a single port exclude each other")
	}
	return nil
}

// setDefaults puts numbers where zeros stand for a default.
func (s *Server) setDefaults() {
	if s.Limits.Window == 0 {
		s.Limits.Window = DefaultWindow
	}
	if s.MaxTransfers <= 0 {
		s.MaxTransfers = DefaultMaxTransfers
	}
	if s.MaxPerClient <= 0 {
		s.MaxPerClient = s.MaxTransfers
	}
	if s.MaxUpload <= 0 {
		s.MaxUpload = DefaultMaxUpload
	}
	if s.Memory <= 0 {
		s.Memory = DefaultMemory
	}
	if s.Loops <= 0 {
		// The kernel's part in receiving, and workers, need as much again.
		s.Loops = (runtime.GOMAXPROCS(0) + 1) / 2
	}
	if !udp.CanSharePort && s.SinglePort {
		s.Loops = 1
	}
	if s.Grace <= 0 {
		s.Grace = DefaultGrace
	}
	if s.open == nil {
		s.open = packetio.Open
		if s.mtu == nil {
			s.mtu = udp.PathMTU
		}
	}
}
