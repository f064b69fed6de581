package tftp

import (
	"sync/atomic"

	"github.com/haul-project/haul/tftp/internal/packetio"
)

// A Reason says why requests are turned away before they become transfers.
type Reason uint8

// The reasons.
const (
	Malformed Reason = iota // not a request that RFC 1350 allows
	Overload                // more requests than the loops can handle
	Denied                  // turned away because of Config.Allow and Deny
	Rate                    // turned away because of Config.Rate
	PerClient               // turned away because of Config.MaxPerClient
	Busy                    // turned away because of Config.MaxTransfers
	Stopping                // the server is ending
	reasons
)

// String returns the reason in one word.
func (r Reason) String() string {
	return [...]string{"malformed", "overload", "denied", "rate", "address", "busy", "stopping"}[r]
}

// Counters are totals since a server began. All fields except Live, Dallying and Held only grow.
type Counters struct {
	PacketsIn, PacketsOut int64 // datagrams
	BytesIn, BytesOut     int64 // bytes in their payloads, which are TFTP packets

	Strays    int64 // datagrams that belonged to no transfer
	Unsent    int64 // datagrams that the kernel refused
	LinesLost int64 // log lines for which there was no room
	Crashes   int64 // transfers that a panic of the server or of a Store ended

	TurnedAway [reasons]int64 // requests, by Reason

	Live     int64 // transfers under way
	Dallying int64 // transfers that are over but still answer repeats
	Held     int64 // bytes of Config.Memory that are in use
}

// totals holds the counters of one loop. Each loop has its own: if several wrote to the same
// memory, each turn would wait for the other processors.
type totals struct {
	packetsIn, packetsOut, bytesIn, bytesOut atomic.Int64
	strays, unsent                           atomic.Int64
	turnedAway                               [reasons]atomic.Int64

	_ [128 - (6+reasons)*8]byte // keeps the counters of two loops out of the same cache line, and out of lines that are fetched together
}

// shardCounters holds the counts of one loop since the latest flush.
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

// flush adds the counts of a loop and of its send batch since the last call to the totals. If
// turnedAway is not nil, it is called with the number of requests turned away.
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
