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
	"github.com/haul-project/haul/tftp/transfer"
	"github.com/haul-project/haul/udp"
)

// Uploads says which files of a [Config]'s Store clients may write.
type Uploads uint8

// The values of Uploads.
const (
	NoUploads        Uploads = iota // clients may not write any files
	CreateUploads                   // clients may create files, but not change existing ones
	OverwriteUploads                // clients may create files and replace existing ones
)

// These are the defaults for zero fields of a Config.
const (
	defaultMaxTransfers = 16384
	defaultMaxUpload    = 16 << 30  // bytes
	defaultMemory       = 128 << 20 // bytes
	defaultRate         = 1000      // requests per second from one address
	defaultGrace        = 10 * time.Second

	// defaultWindow is enough for a round trip of 3 ms at 100 MB/s in blocks of 1432 bytes. It also
	// limits how much data a forged request, followed by a forged ACK 0, can make the server send
	// to a victim.
	defaultWindow = 256
)

// Defaults returns a Config whose fields hold the defaults that apply to zero fields.
func Defaults() Config {
	return Config{
		Limits:       transfer.Limits{Window: defaultWindow},
		MaxUpload:    defaultMaxUpload,
		MaxTransfers: defaultMaxTransfers,
		MaxPerClient: defaultMaxTransfers,
		Rate:         defaultRate,
		Memory:       defaultMemory,
		// The other CPUs are left to the kernel's receive path and the workers.
		Loops: (runtime.GOMAXPROCS(0) + 1) / 2,
		Grace: defaultGrace,
	}
}

// A Config holds the settings of a TFTP server. Store, Read or Write must be set; all other fields
// may be zero. [Config.Listen] makes a copy of it.
type Config struct {
	// Store holds the files to serve if Read and Write are nil. The server cleans the names in
	// requests with [store.CleanName].
	Store  store.Store
	Upload Uploads // which files of Store clients may write

	// Read opens the file of a read request, and Write begins the upload of a write request.
	// Workers call them, so both may block. ctx is cancelled when the transfer ends; the server
	// then closes the file.
	//
	// If they return an error, the client gets an ERROR packet with a matching code: a
	// *[transfer.Error] is sent as it is, and fs.ErrNotExist, fs.ErrExist, fs.ErrPermission and
	// store.ErrNoSpace each have a code. The text of any other error is logged, but not sent.
	//
	// Write should pass [Request.Create] to its store, so that the store can refuse an upload at
	// once if it does not fit.
	//
	// If [store.LocationOf] returns a name for an Upload that differs from the name in the request,
	// the log shows that name.
	Read  func(ctx context.Context, r *Request) (store.File, error)
	Write func(ctx context.Context, r *Request) (store.Upload, error)

	// Hooks are called when transfers begin and end.
	Hooks Hooks

	// Limits bounds the option values to which the server agrees. A zero Window means 256 blocks;
	// other zero fields mean the whole range of the RFCs.
	Limits transfer.Limits

	// Rules change how the server answers some clients.
	Rules []ClientRule

	// MTU limits block sizes so that packets need no IP fragments, because boot ROMs cannot
	// reassemble those. 0 means the path MTU to each peer, as the kernel knows it. A positive MTU
	// is the size of an IP packet in bytes. A negative MTU means no limit.
	MTU int

	SinglePort bool   // answer from the port that receives requests, as NAT and containers need
	FirstPort  uint16 // first of the ports from which transfers are answered
	LastPort   uint16 // last of these ports; 0 means that the kernel chooses ports

	MaxUpload    int64 // largest upload in bytes; 0 means 16 GiB
	MaxTransfers int   // most transfers under way at a time; 0 means 16,384
	MaxPerClient int   // most transfers under way at a time with one address; 0 means MaxTransfers
	// MaxFiles is how many files and uploads may be open at a time. A file with several readers
	// counts once; 0 means no limit.
	MaxFiles int
	// Rate is how many requests per second one address may send. 0 means 1000, but no limit for
	// loopback addresses. A negative Rate means no limit.
	Rate      int
	Bandwidth int64          // bytes of data per second in each direction, for all transfers; 0 means no limit
	Memory    int64          // most memory for the buffers of all transfers, in bytes; 0 means 128 MiB
	Allow     []netip.Prefix // networks of clients that may send requests; empty means all
	Deny      []netip.Prefix // networks of clients that may not send requests, even if Allow contains them

	// BandwidthPerClient limits the transfers with one address, as Bandwidth limits all transfers.
	// Both limits delay packets by up to half a second, and drop no packets. If longer delays would
	// be needed, the rate is exceeded.
	BandwidthPerClient int64

	// Loops is the largest number of event loops for each listening address. 0 means one for every
	// two CPUs. A loop gets transfers only when the loops before it are busy.
	Loops int

	// Grace is how long transfers under way may continue once the context of Serve has ended. If
	// calls to a store do not return, Serve waits for them for up to 20 s more. 0 means 10 s.
	Grace time.Duration

	Log   *slog.Logger // gets a line for each transfer; nil means no log
	Plain bool         // use no kernel offloads, as if the system had none
}

// Hooks are functions that a server calls; each may be nil. An event loop calls them, so work that
// takes longer than a microsecond should be passed to another goroutine.
type Hooks struct {
	// Started is called when the first packet of a transfer is about to be sent. Ended is called
	// when a transfer is over, with its outcome and figures; for a refused request it is called
	// without Started. Both get the same *Transfer.
	Started func(*Transfer)
	Ended   func(*Transfer)

	// TurnedAway is called after n requests were turned away before they became transfers. The
	// argument why is the reason. Ended is called for only some of these requests, to keep the log
	// short.
	TurnedAway func(why Reason, n int64)

	// Trace is called with each datagram that is received or sent. Several loops may call it at the
	// same time. It must not keep the slice `data`.
	Trace func(at time.Time, sent bool, peer, local netip.AddrPort, data []byte)
}

// check returns an error if a setting is invalid.
func (c *Config) check() error {
	switch {
	case c.Store == nil && c.Read == nil && c.Write == nil:
		return fmt.Errorf("tftp: server has nothing to serve: set Store, Read or Write")
	case c.Bandwidth < 0 || c.BandwidthPerClient < 0:
		return fmt.Errorf("tftp: a bandwidth of %d bytes a second, and %d for each client: neither may be negative", c.Bandwidth, c.BandwidthPerClient)
	case slices.ContainsFunc(c.Rules, func(r ClientRule) bool { return r.Rollover > transfer.RolloverOne }):
		return fmt.Errorf("tftp: a rule for the rollover is for RolloverZero or RolloverOne")
	case c.FirstPort > c.LastPort:
		return fmt.Errorf("tftp: ports %d to %d are no range", c.FirstPort, c.LastPort)
	case c.FirstPort == 0 && c.LastPort != 0:
		return fmt.Errorf("tftp: ports %d to %d: a range begins above 0", c.FirstPort, c.LastPort)
	case c.SinglePort && c.LastPort != 0:
		return fmt.Errorf("tftp: a port range and a single port exclude each other")
	}
	return nil
}

// setDefaults replaces zero fields with the defaults that they stand for.
func (c *Config) setDefaults() {
	d := Defaults()
	if c.Limits.Window == 0 {
		c.Limits.Window = d.Limits.Window
	}
	if c.MaxTransfers <= 0 {
		c.MaxTransfers = d.MaxTransfers
	}
	if c.MaxPerClient <= 0 {
		c.MaxPerClient = c.MaxTransfers
	}
	if c.MaxUpload <= 0 {
		c.MaxUpload = d.MaxUpload
	}
	if c.Memory <= 0 {
		c.Memory = d.Memory
	}
	if c.Loops <= 0 {
		c.Loops = d.Loops
	}
	if !udp.CanSharePort && c.SinglePort {
		c.Loops = 1
	}
	if c.Grace <= 0 {
		c.Grace = d.Grace
	}
}
