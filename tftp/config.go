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

// The kinds of uploads that a server accepts.
const (
	NoUploads        Uploads = iota // no files
	CreateUploads                   // only new files; existing files are never changed
	OverwriteUploads                // new files, and new content for existing ones
)

// These are the values of zero fields of a Config.
const (
	defaultMaxTransfers = 16384
	defaultMaxUpload    = 16 << 30  // bytes
	defaultMemory       = 128 << 20 // bytes
	defaultRate         = 1000      // requests per second from one address
	defaultGrace        = 10 * time.Second

	// defaultWindow is enough for a round trip of 3 ms at 100 MB/s in blocks of 1432 bytes. It also
	// bounds the data that one forged request and one forged ACK 0 can direct at a victim.
	defaultWindow = 256
)

// Defaults returns a Config with the numbers that zero fields of a Config mean.
func Defaults() Config {
	return Config{
		Limits:       transfer.Limits{Window: defaultWindow},
		MaxUpload:    defaultMaxUpload,
		MaxTransfers: defaultMaxTransfers,
		MaxPerClient: defaultMaxTransfers,
		Rate:         defaultRate,
		Memory:       defaultMemory,
		Loops:        (runtime.GOMAXPROCS(0) + 1) / 2, // the kernel's receive path and the workers need the other CPUs
		Grace:        defaultGrace,
	}
}

// A Config holds the settings of a TFTP server. It needs a Store, or Read or Write; every other
// field may be zero. [Config.Listen] copies it.
type Config struct {
	// Store holds the files to serve if Read and Write are nil. Names are cleaned by
	// [store.CleanName].
	Store  store.Store
	Upload Uploads // which files of the Store clients may write

	// Read answers a request for a file, and Write a request to store one. Workers call them, so
	// both may block. ctx is cancelled when the transfer ends; the server then closes the file.
	//
	// An error that they return becomes an ERROR packet with the code that fits: a
	// *[transfer.Error] is sent as it is; fs.ErrNotExist, fs.ErrExist, fs.ErrPermission and
	// store.ErrNoSpace have codes of their own. The text of any other error is logged, and not
	// sent.
	//
	// Write should pass [Request.Create] to its store, so that an upload that does not fit is
	// refused at once.
	//
	// The log shows the name that [store.LocationOf] returns for an Upload, if it differs from the
	// name that the client sent.
	Read  func(ctx context.Context, r *Request) (store.File, error)
	Write func(ctx context.Context, r *Request) (store.Upload, error)

	// Hooks are called as transfers begin and end.
	Hooks Hooks

	// Limits bounds the option values that the server agrees on with clients. A zero Window means
	// 256 blocks; other zero fields mean the whole range of the RFCs.
	Limits transfer.Limits

	// Rules change the options that some clients get.
	Rules []ClientRule

	// MTU bounds block sizes so that packets need no IP fragments, which
	// boot ROMs cannot reassemble. 0 asks the kernel for the path MTU of each peer. A positive
	// MTU is the size of an IP packet in bytes. A negative one sets no bound.
	MTU int

	SinglePort bool   // answer from the port that receives requests, for NAT and containers
	FirstPort  uint16 // first port of the range for transfers
	LastPort   uint16 // last port of the range; 0 lets the kernel choose ports

	MaxUpload    int64          // largest upload in bytes; 0 means 16 GiB
	MaxTransfers int            // transfers at the same time; 0 means 16,384
	MaxPerClient int            // transfers at the same time from one address; 0 means MaxTransfers
	MaxFiles     int            // files and uploads open at the same time; a file with several readers counts once; 0 means no limit
	Rate         int            // requests per second from one address; 0 means 1000, but no limit for loopback; negative means no limit
	Bandwidth    int64          // bytes of data per second in each direction, for all transfers; 0 means no limit
	Memory       int64          // largest size of all buffers of transfers, in bytes; 0 means 128 MiB
	Allow        []netip.Prefix // clients that may send requests; empty means all
	Deny         []netip.Prefix // exceptions from Allow

	// BandwidthPerClient limits the transfers of one address, as Bandwidth limits all transfers.
	// Both limits delay packets by up to half a second, and drop no packet. A rate that would need
	// longer delays is exceeded.
	BandwidthPerClient int64

	// Loops is the largest number of event loops for each address. 0 means one for every two CPUs.
	// A loop is used only when those before it are busy.
	Loops int

	// Grace is how long running transfers may continue once the context of Serve has ended. If
	// calls to a store hang, Serve waits up to 20 s more for them. 0 means 10 s.
	Grace time.Duration

	Log   *slog.Logger // gets one line for each transfer; nil logs nothing
	Plain bool         // use no kernel offloads, as if the system had none
}

// Hooks are functions that a server calls; each may be nil. An event loop calls them, so work that
// takes longer than a microsecond belongs in another goroutine.
type Hooks struct {
	// Started is called when a transfer's packets begin to flow. Ended is called when a transfer is
	// over, with its outcome and figures; it is also called, without Started, for a refused
	// request. Both get the same *Transfer.
	Started func(*Transfer)
	Ended   func(*Transfer)

	// TurnedAway is called after n requests were turned away for the given reason, before they
	// became transfers. To keep the log short, Ended is called for only some of them.
	TurnedAway func(why Reason, n int64)

	// Trace is called with each datagram that is received or sent. Any loop may call it. It must
	// not keep the data.
	Trace func(at time.Time, sent bool, peer, local netip.AddrPort, data []byte)
}

// check returns an error for invalid settings.
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

// setDefaults replaces each zero field with the default that it means.
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
