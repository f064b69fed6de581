package tftp

import (
	"sync/atomic"

	"github.com/haul-project/haul/tftp/internal/packetio"
)

// A Reason says why a request was turned away before it became a transfer.
type Reason uint8

// The reasons to turn a request away.
const (
	Malformed Reason = iota // the datagram is not a request as RFC 1350 defines it
	Overload                // more requests arrive than the loops can handle
	Denied                  // the address is excluded by Config.Allow or Config.Deny
	Rate                    // the address has exceeded Config.Rate
	PerClient               // the address has Config.MaxPerClient transfers
	Busy                    // Config.MaxTransfers transfers are under way
	Stopping                // the server is shutting down
	reasons                 // the number of reasons
)

// String returns the reason as one word.
func (r Reason) String() string {
	return [...]string{"malformed", "overload", "denied", "rate", "address", "busy", "stopping"}[r]
}

// Counters are totals since the server began. Only Live, Dallying and Held are current values,
// which may also fall.
type Counters struct {
	PacketsIn, PacketsOut int64 // number of datagrams
	BytesIn, BytesOut     int64 // bytes of the datagrams' payloads, which are TFTP packets

	Strays    int64 // datagrams that did not belong to any transfer
	Unsent    int64 // messages that the kernel refused to send; each may hold several datagrams
	LinesLost int64 // log lines that were dropped because the log was too slow
	Crashes   int64 // panics that were caught, each of which ended a transfer or a call of a hook

	TurnedAway [reasons]int64 // requests that were turned away, by Reason

	Live     int64 // transfers under way
	Dallying int64 // transfers that are over, but still answer repeated packets
	Held     int64 // bytes of Config.Memory in use
}

// totals holds the counters of one loop. Each loop has its own, because several processors that
// write to the same memory slow each other down.
type totals struct {
	packetsIn, packetsOut, bytesIn, bytesOut atomic.Int64
	strays, unsent                           atomic.Int64
	turnedAway                               [reasons]atomic.Int64

	// This padding keeps the counters of two loops from sharing a cache line, or a pair of lines
	// that the processor fetches together.
	_ [128 - (6+reasons)*8]byte
}

// shardCounters holds the counts of one loop since the last flush.
type shardCounters struct {
	totals             *totals
	packetsIn, bytesIn int64
	strays             int64
	turnedAway         [reasons]int64
	anyTurnedAway      bool
}

func (c *shardCounters) received(packets, bytes int) {
	c.packetsIn += int64(packets)
	c.bytesIn += int64(bytes)
}

func (c *shardCounters) turnAway(why Reason) {
	c.turnedAway[why]++
	c.anyTurnedAway = true
}

// flush adds the counts of a loop, and those of its send batch, to the totals, and sets these
// counts to 0. If turnedAway is not nil, flush calls it with the number of requests turned away for
// each reason.
func (c *shardCounters) flush(out *packetio.Counts, turnedAway func(Reason, int64)) {
	t := c.totals
	move := func(to *atomic.Int64, from *int64) {
		if *from != 0 {
			to.Add(*from)
			*from = 0
		}
	}
	move(&t.packetsIn, &c.packetsIn)
	move(&t.packetsOut, &out.Packets)
	move(&t.bytesIn, &c.bytesIn)
	move(&t.bytesOut, &out.Bytes)
	move(&t.strays, &c.strays)
	move(&t.unsent, &out.Unsent)
	if !c.anyTurnedAway {
		return
	}
	c.anyTurnedAway = false
	for why, count := range c.turnedAway {
		if count > 0 && turnedAway != nil {
			turnedAway(Reason(why), count)
		}
		move(&t.turnedAway[why], &c.turnedAway[why])
	}
}
