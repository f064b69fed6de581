// Package protocol implements TFTP without a network: packets, options, and the two state machines that
// move one file, [Sender] and [Receiver].
//
// It implements RFC 1350 (the protocol), RFC 2347 (options), RFC 2348 (blksize), RFC 2349 (timeout,
// tsize) and RFC 7440 (windowsize), with the timer of RFC 6298. The page
// https://github.com/haul-project/haul/blob/main/docs/tftp.md lists each rule and each deviation.
//
// Nothing here opens a socket, reads a clock, touches a file or starts a goroutine. A driver owns
// those, and runs a machine in four steps:
//
//  1. hand every datagram from the peer to Handle;
//  2. call Expire when Deadline has passed;
//  3. after either, send what AppendReply and (for a Sender) Due ask for;
//  4. forget the machine once Done reports true and Deadline is zero.
//
// The server's event loop, the client and the simulator are three such drivers. A machine begins
// with Answer (a server's side) or Request (a client's side). Calling either one again reuses its
// memory for another transfer. The example of this package is a complete driver.
package protocol

import "time"

// Bounds of a transfer. They limit every wait and every retry in this package.
const (
	// maxFirst is how many times an answer is sent again before the peer has sent anything valid.
	// The address of a request may be forged, so this bounds the traffic that a forger can direct
	// at a third party.
	maxFirst = 3

	// maxFirstData is the same bound for an answer that is a DATA packet, which is larger than the
	// request. A peer that receives nothing repeats its request, and then gets an answer.
	maxFirstData = 1

	// repeatGap is how old an answer must be before a repeated request makes us send it again: some
	// ROMs repeat their requests within milliseconds.
	repeatGap = 200 * time.Millisecond

	// maxRequests is how many times a client sends its request.
	maxRequests = 8

	// maxSilence is how long a peer that has answered before may be silent. A longer negotiated
	// timeout extends this to maxSilentTimeouts timeouts. A timeout longer than longestWait is
	// confirmed, but we wait no longer than longestWait for one answer. Besides, at least minTries
	// timeouts must pass: after a pause of the whole process, the clock has advanced although the
	// peer had no chance to answer.
	maxSilence        = 30 * time.Second
	maxSilentTimeouts = 5
	longestWait       = time.Minute
	minTries          = 3

	// slowestBlock sets the lowest allowed average rate of a transfer: one block of 512 bytes or
	// less in this time. We end a transfer that falls maxStall behind that rate. That includes a
	// transfer whose peer keeps sending without any progress.
	slowestBlock = 30 * time.Second
	maxStall     = 5 * time.Minute

	// finalSilence is how long a Sender that answers a read waits if only the acknowledgement of
	// the last window is missing. Some boot ROMs never acknowledge the last block.
	finalSilence = 5 * time.Second

	// Dallying (RFC 1350 §6): a Receiver that is done still answers repeats of the last block for
	// this time. A server waits for clients with timers of several seconds; a client waits as long
	// as a sender with a measured timer needs.
	serverDally    = 12 * time.Second
	minClientDally = 250 * time.Millisecond // longer than windowRTO
	maxClientDally = 3 * time.Second
)
