package tftp

import (
	"errors"
	"net/netip"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/transfer"
)

// A Request is a read or write request of a client.
type Request struct {
	transfer.Request                // Name as the client sent it, Write, Mode and the options on offer
	Peer             netip.AddrPort // the client
	// Local is the address and port to which the client sent the request; some systems do not
	// report the address.
	Local netip.AddrPort

	published *store.Published // where the store records the published file: see Create; nil for a read
}

// Create returns the parameters of the upload that r requests: its size in bytes from tsize (RFC
// 2349), and the place where the store records the published file. The size is 0 if the client does
// not announce it, and in netascii, because the line ends in the file differ from those sent. A
// store must not reserve space for the upload, because the request may be forged.
func (r *Request) Create() store.Create {
	c := store.Create{Published: r.published}
	if r.Mode != transfer.Netascii && r.Offer.HasSize {
		c.Size = r.Offer.Size
	}
	return c
}

// Direction returns "read" or "write", from the client's point of view.
func (r *Request) Direction() string {
	if r.Write {
		return "write"
	}
	return "read"
}

// A Transfer describes one transfer of a server to the functions Started and Ended of [Hooks]. The
// fields after Value are set when the transfer is over.
type Transfer struct {
	Request
	Path string // path of the file on disk, once it is open; "" if unknown
	// Size is the size of the file that is read, or the size announced for an upload, in bytes; -1
	// if unknown.
	Size   int64
	Agreed transfer.Options // options that both sides have agreed on; zero before that
	Began  time.Time        // when the request was received

	Value any // for use by the hooks: the server does not read it

	Outcome  Outcome
	Err      error // why the transfer failed; nil for success
	Bytes    int64 // bytes that the peer has acknowledged or sent
	Duration time.Duration
	Disk     time.Duration // part of Duration spent waiting for the store
	Lost     time.Duration // part of Duration spent waiting for the timer while the peer sent nothing
	transfer.Stats

	// Published describes the published file of an upload. It is nil if the upload was not
	// published, or the store does not report the file: see [store.Create].
	Published *store.Published

	// Stored is the name that the store gave an upload, if it differs from the name that the client
	// sent, and the store reports it: see [Config].Write.
	Stored string

	progress *progress // nil if no session has described the transfer

	waiting bool // the transfer was waiting for the store when it ended
}

// An Outcome describes how a transfer ended, in a few words.
type Outcome string

// The values of an Outcome.
const (
	Done        Outcome = "done"
	Unconfirmed Outcome = "unconfirmed"   // done, but the last ACK of a read did not arrive
	Probe       Outcome = "probe"         // the peer only wanted to know the size
	Refused     Outcome = "refused"       // the server refused the request
	EndedByPeer Outcome = "ended by peer" // the peer sent an ERROR
	PeerSilent  Outcome = "peer silent"   // the peer stopped answering, or never answered
	Replaced    Outcome = "replaced"      // the peer started another transfer from the same port
	Failed      Outcome = "failed"        // a fault on our side, such as a full disk, or the peer broke the rules
)

var errReplaced = errors.New("peer began anew")

// outcome returns the outcome of a transfer that has ended.
func (t *Transfer) outcome() Outcome {
	var fault *transfer.Error
	switch {
	case t.Err == nil && t.Unconfirmed:
		return Unconfirmed
	case t.Err == nil:
		return Done
	case errors.Is(t.Err, errReplaced):
		return Replaced
	case t.Sent == 0 && !errors.Is(t.Err, store.ErrNoSpace) && !errors.Is(t.Err, store.ErrUnavailable):
		return Refused
	case errors.As(t.Err, &fault) && fault.Remote && t.isProbe(fault.Code):
		return Probe
	case errors.As(t.Err, &fault) && fault.Remote:
		return EndedByPeer
	case errors.Is(t.Err, transfer.ErrSilent):
		return PeerSilent
	}
	return Failed
}

// isProbe reports whether a transfer was a size probe: firmware and iPXE request a file with tsize,
// and end the transfer with ERROR 0 or 8 once they have the OACK.
func (t *Transfer) isProbe(code transfer.ErrorCode) bool {
	return !t.Write && t.Bytes == 0 && !t.waiting && (code == transfer.NotDefined || code == transfer.OptionsRefused)
}

const (
	// The log gives a reason for a transfer that took at least slowAfter, at less than slowRate
	// bytes a second.
	slowAfter = time.Second
	slowRate  = 1 << 20
)

// slow returns the main reason why a transfer was slow: "disk", "loss" (lost packets) or "peer". It
// returns "" for a transfer that was not slow.
func (t *Transfer) slow() string {
	switch {
	case t.Duration < slowAfter, float64(t.Bytes) >= slowRate*t.Duration.Seconds():
		return ""
	case t.Disk >= t.Lost && t.Disk > t.Duration/2:
		return "disk"
	case t.Lost > t.Disk && t.Lost > t.Duration/2:
		return "loss"
	}
	return "peer"
}
