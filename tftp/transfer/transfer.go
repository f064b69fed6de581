// Package transfer defines the values that servers and clients of TFTP have in common: requests,
// modes, options and their limits, error codes, and the counts of a transfer.
//
// They come from RFC 1350 (the protocol), RFC 2347 (options), RFC 2348 (blksize), RFC 2349
// (timeout, tsize) and RFC 7440 (windowsize). To send or receive files, use package
// [github.com/haul-project/haul/tftp] or [github.com/haul-project/haul/tftp/tftpclient].
//
// # Stability
//
// Before version 1, a release may change names of this package, and the changelog says so.
package transfer

import "time"

// Stats holds the counts of one side of a transfer. All fields except RTT only grow.
type Stats struct {
	Sent       int64         // datagrams sent: DATA, ACK, OACK, requests and ERROR
	Resent     int64         // datagrams among Sent that repeat an earlier one: a DATA block, ACK, OACK or request
	Received   int64         // datagrams from the peer
	Duplicates int64         // DATA or ACK received again
	Strays     int64         // datagrams that were ignored, because they do not fit the state of the transfer
	Timeouts   int64         // how many times the timer expired
	RTT        time.Duration // smoothed round trip; 0 before the first measurement

	// Unconfirmed says that the whole file of a read was sent, and only the acknowledgement of the
	// last window did not arrive. ROMs that do not send their last ACK cause this.
	Unconfirmed bool
}

// Packets returns the number of datagrams in both directions.
func (s *Stats) Packets() int64 { return s.Sent + s.Received }
