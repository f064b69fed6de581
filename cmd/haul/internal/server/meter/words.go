package meter

import "slices"

// A Protocol is the protocol of a transfer. Values other than the constants count as "other".
type Protocol string

// These are the protocols that have their own label in the metrics.
const (
	TFTP  Protocol = "tftp"
	SFTP  Protocol = "sftp"
	HTTP  Protocol = "http"
	HTTPS Protocol = "https"
)

var protocols = []Protocol{TFTP, SFTP, HTTP, HTTPS}

// A Result says how a transfer ended. Values other than the constants count as "other". The log
// uses the same words.
type Result string

// These are the results of transfers.
const (
	Done        Result = "done"
	Unconfirmed Result = "unconfirmed"   // everything was sent, but the last acknowledgement did not arrive
	Probe       Result = "probe"         // the peer wanted only the size of the file
	Refused     Result = "refused"       // this side refused the transfer before any data was sent
	PeerEnded   Result = "ended by peer" // the peer aborted the transfer, and said so
	PeerSilent  Result = "peer silent"   // the peer stopped answering, or the path to it failed
	Replaced    Result = "replaced"      // the peer began the same transfer again
	Failed      Result = "failed"        // the transfer failed because of an error on our side
)

var results = []Result{Done, Unconfirmed, Probe, Refused, PeerEnded, PeerSilent, Replaced, Failed}

// complete reports whether the whole file was transferred, even if that was not confirmed.
func (r Result) complete() bool { return r == Done || r == Unconfirmed }

// A Reason says why a request was refused before it became a transfer. Values other than the
// constants count as "other".
type Reason string

// These are the reasons for which requests are refused.
const (
	Busy      Reason = "busy"      // the maximum number of transfers is already under way
	Rate      Reason = "rate"      // too many requests a second
	Address   Reason = "address"   // too many requests from this address or its network
	Denied    Reason = "denied"    // the rules exclude this peer
	Malformed Reason = "malformed" // not a valid request of the protocol
	Overload  Reason = "overload"  // more requests at once than the server can examine
	Stopping  Reason = "stopping"  // the server is shutting down
)

var (
	allReasons = [...]Reason{Busy, Rate, Address, Denied, Malformed, Overload, Stopping}
	reasons    = allReasons[:]
)

// other is the label for values that are not in the lists.
const other = "other"

// place returns the index of v in list, or len(list) if the list does not contain v.
func place[T comparable](list []T, v T) int {
	if i := slices.Index(list, v); i >= 0 {
		return i
	}
	return len(list)
}

// word returns the label for an index that [place] has returned: the value in the list, or "other".
func word[T ~string](list []T, at int) string {
	if at < len(list) {
		return string(list[at])
	}
	return other
}
