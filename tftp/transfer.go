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
	Local            netip.AddrPort // our address and port that it asked; some systems do not report the address

	published *store.Published // for Create; nil for a read
}

// Create returns how to begin the upload that r asks for: its size in bytes by tsize
// (RFC 2349), and where the store notes the published file. The size is 0 if the client does
// not announce it, and in netascii, where the file has other line ends than the transfer. A
// store must not reserve space for it: the request may be forged.
func (r *Request) Create() store.Create {
	c := store.Create{Published: r.published}
	if r.Mode != transfer.Netascii && r.Offer.HasSize {
		c.Size = r.Offer.Size
	}
	return c
}

// Direction returns "read" or "write", as the client sees it.
func (r *Request) Direction() string {
	if r.Write {
		return "write"
	}
	return "read"
}

// A Transfer is one transfer of a server, for [Hooks].Started and
// Ended. The fields below Value are set at the end.
type Transfer struct {
	Request
	Path   string           // of the file on the disk, once it is open; "" where that is not known
	Size   int64            // of a file that is read, or what an upload announced, in bytes; -1 if unknown
	Agreed transfer.Options // what was agreed on; zero before
	Began  time.Time        // when the request was taken in

	Value any // for the caller that set Started

	Outcome  Outcome
	Err      error // why it ended, nil if it ended well
	Bytes    int64 // that the peer has acknowledged, or sent
	Duration time.Duration
	Disk     time.Duration // of Duration, waiting for the store
	Lost     time.Duration // and for the timer, as nothing came from the peer
	transfer.Stats

	// Published is the file of an upload; nil if it got no name, or the store does not know:
	// see [store.Create].
	Published *store.Published

	// Stored is the name that the store gave an upload, if that is not the client's
	// and the store reports it: see [Config].Write.
	Stored string

	progress *progress // nil of a transfer that no session has described

	waiting bool // for the store, when it ended
}

// An Outcome is how a transfer ended, in a few words.
type Outcome string

// The outcomes.
const (
	Done        Outcome = "done"
	Unconfirmed Outcome = "unconfirmed"   // done, but the last ACK of a read never came
	Probe       Outcome = "probe"         // the peer only wanted to know the size
	Refused     Outcome = "refused"       // the server refused the request
	EndedByPeer Outcome = "ended by peer" // the peer sent an ERROR
	PeerSilent  Outcome = "peer silent"   // the peer stopped answering, or never answered
	Replaced    Outcome = "replaced"      // the peer began anew
	Failed      Outcome = "failed"        // on our side, as by a full disk, or the peer broke the rules
)

var errReplaced = errors.New("peer began anew")

// outcome returns how a transfer ended.
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

// isProbe recognizes a size probe: firmware and iPXE ask for a file with tsize,
// and end the transfer by ERROR 0 or 8 once they have the OACK.
func (t *Transfer) isProbe(code transfer.ErrorCode) bool {
	return !t.Write && t.Bytes == 0 && !t.waiting && (code == transfer.NotDefined || code == transfer.OptionsRefused)
}

const (
	// A transfer that took slowAfter at least, at less than slowRate bytes a
	// second, gets a reason in the log.
	slowAfter = time.Second
	slowRate  = 1 << 20
)

// slow returns the main reason why a transfer was slow: "disk", "loss" (lost packets)
// or "peer". It returns "" for a transfer that was not slow.
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
