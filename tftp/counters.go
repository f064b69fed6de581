package tftp

import "sync/atomic"

// A Reason says why requests are turned away before they become transfers.
type Reason uint8

// The reasons.
const (
	Malformed Reason = iota // no request, or not one of RFC 1350
	Overload                // more requests than the loops can take
	Denied                  // Server.Allow and Deny
	Rate                    // Server.Rate
	PerClient               // Server.MaxPerClient
	Busy                    // Server.MaxTransfers
	Stopping                // the server ends
	reasons
)

// String returns the reason in one word.
func (r Reason) String() string {
	return [...]string{"malformed", "overload", "denied", "rate", "address", "busy", "stopping"}[r]
}

// Counters are totals since a server began. All but Live, Resting and Held
// only grow.
type Counters struct {
	PacketsIn, PacketsOut int64 // datagrams
	BytesIn, BytesOut     int64 // their payload: TFTP packets

	Strays  int64 // datagrams that belonged to no transfer
	Unsent  int64 // datagrams that the kernel would not take
	Unsaid  int64 // log lines for which there was no room
	Crashes int64 // transfers that a panic of ours, or of a Store, ended

	TurnedAway [reasons]int64 // requests, by Reason

	Live    int64 // transfers under way
	Resting int64 // transfers that are over, and still answer repeats
	Held    int64 // bytes in buffers, of Server.Memory
}

// Counters returns the totals so far.
func (l *Listener) Counters() Counters {
	c := Counters{
		Unsaid:  l.lostLines.Load(),
		Crashes: l.crashes.Load(),
		Live:    l.count.Load(),
		Resting: l.dallying.Load(),
	}
	for _, t := range l.totals {
		c.PacketsIn += t.packetsIn.Load()
		c.PacketsOut += t.packetsOut.Load()
		c.BytesIn += t.bytesIn.Load()
		c.BytesOut += t.bytesOut.Load()
		c.Strays += t.strays.Load()
		c.Unsent += t.unsent.Load()
		for i := range c.TurnedAway {
			c.TurnedAway[i] += t.turnedAway[i].Load()
		}
	}
	for sh := range l.allShards {
		c.Held += sh.memory.held.Load()
	}
	return c
}

// totals are the counters of one loop. Each has its own: where several wrote to
// the same memory, each turn would wait for the other processors.
type totals struct {
	packetsIn, packetsOut, bytesIn, bytesOut atomic.Int64
	strays, unsent                           atomic.Int64
	turnedAway                               [reasons]atomic.Int64
}

// shardCounters are what one loop counts in a turn.
type shardCounters struct {
	totals                                   *totals
	packetsIn, packetsOut, bytesIn, bytesOut int64
	strays, unsent                           int64
	turnedAway                               [reasons]int64
	anyTurnedAway                            bool
}

func (t *shardCounters) received(packets, bytes int) {
	t.packetsIn += int64(packets)
	t.bytesIn += int64(bytes)
}

func (t *shardCounters) sent(packets, bytes int) {
	t.packetsOut += int64(packets)
	t.bytesOut += int64(bytes)
}

func (t *shardCounters) turnAway(why Reason) {
	t.turnedAway[why]++
	t.anyTurnedAway = true
}

// newShardCounters returns the counters of one more loop. All are made before the loops run.
func (l *Listener) newShardCounters() shardCounters {
	t := new(totals)
	l.totals = append(l.totals, t)
	return shardCounters{totals: t}
}

// flushCounters adds what a loop has counted since the last time to its totals.
func (l *Listener) flushCounters(n *shardCounters) {
	t := n.totals
	move := func(to *atomic.Int64, from *int64) {
		if *from != 0 {
			to.Add(*from)
			*from = 0
		}
	}
	move(&t.packetsIn, &n.packetsIn)
	move(&t.packetsOut, &n.packetsOut)
	move(&t.bytesIn, &n.bytesIn)
	move(&t.bytesOut, &n.bytesOut)
	move(&t.strays, &n.strays)
	move(&t.unsent, &n.unsent)
	if !n.anyTurnedAway {
		return
	}
	n.anyTurnedAway = false
	for why, count := range n.turnedAway {
		if count > 0 && l.TurnedAway != nil {
			l.TurnedAway(Reason(why), count)
		}
		move(&t.turnedAway[why], &n.turnedAway[why])
	}
}
