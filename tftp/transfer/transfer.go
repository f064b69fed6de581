// Package transfer is TFTP without a network: packets, options, and the two
// state machines that move one file, [Sender] and [Receiver].
//
// It implements RFC 1350 (the protocol), RFC 2347 (options), RFC 2348
// (blksize), RFC 2349 (timeout, tsize) and RFC 7440 (windowsize), with the
// timer of RFC 6298. The page https://github.com/haul-project/haul/blob/main/docs/tftp.md lists
// each rule and each deviation.
//
// Nothing here opens a socket, reads a clock, touches a file or starts a
// goroutine. A driver owns those, and runs a machine in four steps:
//
//  1. hand every datagram from the peer to Handle;
//  2. call Expire when Deadline has passed;
//  3. after either, send what AppendReply and (for a Sender) Due ask for;
//  4. forget the machine once Done reports true and Deadline is zero.
//
// The server's event loop, the client and the simulator are three such
// drivers. Machines begin with Answer (a server's side) or Request (a
// client's); calling either again reuses the memory for another transfer. The
// example of this package is a whole driver.
//
// # Stability
//
// Before version 1, a release may change names of this package, and the changelog says so.
// Most programs need package [github.com/haul-project/haul/tftp] or
// [github.com/haul-project/haul/tftp/tftpclient] instead.
package transfer

import (
	"errors"
	"time"
)

// Port is the port on which servers listen for requests.
const Port = 69

// Bounds of a transfer. Every wait and every retry in this package is held by
// one of them.
const (
	// maxFirst is how often an answer is sent again while nothing valid has
	// come from the peer. The address of a request may be forged, so this
	// bounds the traffic that a forger can aim at a third party.
	maxFirst = 3

	// maxFirstData is the same where the answer is DATA, which is larger than
	// the request. A peer that hears nothing repeats its request, and is
	// answered then.
	maxFirstData = 1

	// repeatGap is how old an answer must be to be sent again for a repeated
	// request: some ROMs repeat theirs within milliseconds.
	repeatGap = 200 * time.Millisecond

	// maxRequests is how often a client sends its request.
	maxRequests = 8

	// maxSilence is how long a peer that has answered before may say nothing;
	// a longer negotiated timeout stretches it to maxSilentTimeouts of them. A
	// longer timeout than longestWait is confirmed, but we wait no longer than
	// that for one answer. It takes minTries timeouts as well: after a pause of
	// the whole process the clock has moved, but the peer had no chance to speak.
	maxSilence        = 30 * time.Second
	maxSilentTimeouts = 5
	longestWait       = time.Minute
	minTries          = 3

	// slowestBlock is the least average rate of a transfer: a block of 512 bytes, or
	// a smaller one, in so much time. A transfer that is maxStall behind it is
	// over. So is one whose peer keeps sending while nothing moves.
	slowestBlock = 30 * time.Second
	maxStall     = 5 * time.Minute

	// finalSilence is how long a Sender that answers a read waits when only the
	// acknowledgement of the last window is missing: some boot ROMs never send
	// that of the last block.
	finalSilence = 5 * time.Second

	// Dallying (RFC 1350 §6): how long a Receiver that is done answers repeats
	// of the last block. A server waits for clients with timers of several
	// seconds; a client for as long as a sender with a measured timer needs.
	serverDally    = 12 * time.Second
	minClientDally = 250 * time.Millisecond // above windowRTO
	maxClientDally = 3 * time.Second
)

// ErrSilent ends a transfer whose peer no longer answers, or never did.
var ErrSilent = errors.New("peer does not answer")

// ErrStalled ends a transfer whose peer keeps sending while nothing moves, or
// next to nothing: see docs/tftp.md, section 5.
var ErrStalled = errors.New("peer makes no progress")

// Stats counts what one machine saw. All but RTT only grow.
type Stats struct {
	Sent       int64         // datagrams sent: DATA, ACK, OACK, requests and ERROR
	Resent     int64         // of those, sent before: DATA blocks, and repeated replies
	Received   int64         // datagrams from the peer
	Duplicates int64         // DATA or ACK received again
	Strays     int64         // datagrams that made no sense here, and were ignored
	Timeouts   int64         // times the timer ran out
	RTT        time.Duration // smoothed round trip; 0 before the first measurement

	// Unconfirmed says that a read was answered whole, and only the last
	// window's acknowledgement never came: what a ROM leaves behind that does
	// not send its last ACK.
	Unconfirmed bool
}

// Packets returns the datagrams of both ways.
func (s *Stats) Packets() int64 { return s.Sent + s.Received }

// outcome is how a machine ended, and the ERROR packet that it still owes.
type outcome struct {
	done         bool
	err          error
	pendingError Error
	hasError     bool
	misdirected  int // which request was followed by ERRORs about another transfer; 0 for none
}

// fail ends the machine without a word to the peer.
func (o *outcome) fail(err error) {
	if !o.done {
		o.done, o.err = true, err
	}
}

// refused ends the machine for an ERROR of the peer. A request that was not
// answered yet has no transfer ID that could be unknown: such an ERROR is about
// an earlier transfer from the same port, of which a duplicate came late. After
// one request they are passed over; a peer that says so to a later one means it.
// request is the number of the latest one, 0 once it is answered.
func (o *outcome) refused(request int, e *Error, st *Stats) {
	if request > 0 && e.Code == UnknownID && (o.misdirected == 0 || o.misdirected == request) {
		o.misdirected = request
		st.Strays++
		return
	}
	o.fail(e)
}

// abort ends the machine and leaves an ERROR packet to send.
func (o *outcome) abort(code ErrorCode, msg string, err error) {
	if o.done {
		return
	}
	o.pendingError, o.hasError = Error{Code: code, Message: msg}, true
	if err == nil {
		err = &Error{Code: code, Message: msg}
	}
	o.fail(err)
}

// appendError appends the owed ERROR packet, once.
func (o *outcome) appendError(b []byte) []byte {
	if !o.hasError {
		return b
	}
	o.hasError = false
	return AppendError(b, o.pendingError.Code, o.pendingError.Message)
}

// silence returns how long a peer may be silent under the given timeout.
func silence(timeout time.Duration) time.Duration {
	return max(maxSilence, maxSilentTimeouts*min(timeout, longestWait))
}

// A progressClock holds a transfer to its least average rate. It stands at the time
// at which a transfer of that rate would be as far as this one is, but never
// ahead: who was fast may not stall for longer.
type progressClock struct{ at time.Time }

func (c *progressClock) start(now time.Time) { c.at = now }

// moved notes blocks of so many bytes that have come or were acknowledged.
func (c *progressClock) moved(now time.Time, blocks, bytes int64) {
	each := slowestBlock * time.Duration(max(bytes, DefaultBlockSize)) / DefaultBlockSize
	c.exclude(now, time.Duration(blocks)*each)
}

// exclude lets time pass that the peer is not to blame for.
func (c *progressClock) exclude(now time.Time, d time.Duration) {
	if c.at = c.at.Add(d); c.at.After(now) {
		c.at = now
	}
}

func (c *progressClock) stalled(now time.Time) bool { return now.Sub(c.at) >= maxStall }
