package tftp

import "sync/atomic"

// Why requests are turned away before they become a transfer.
const (
	refusedMalformed = iota // no request, or not one of RFC 1350
	refusedOverload         // more requests than the loops can take
	refusedDenied           // the address is not allowed
	refusedRate             // too many requests of the address
	refusedPerClient        // too many transfers of the address
	refusedBusy             // too many transfers
	refusedStopping         // the server ends
	refusals
)

// Counters are totals since a server began. All but Live, Resting and Held
// only grow.
type Counters struct {
	PacketsIn, PacketsOut int64 // datagrams
	BytesIn, BytesOut     int64 // their payload: TFTP packets

	Strays  int64 // datagrams that belonged to no transfer
	Unsent  int64 // datagrams that the kernel would not take
	Unsaid  int64 // log lines for which there was no room
	Crashes int64 // transfers that a panic of ours, or of a Store, ended

	// Requests turned away before they became a transfer, by reason.
	Malformed int64 // no request, or not one of RFC 1350
	Overload  int64 // more requests than the loops could take
	Denied    int64 // Allow, Deny
	Rate      int64 // Rate
	PerClient int64 // MaxPerClient
	Busy      int64 // MaxTransfers
	Stopping  int64 // the server ends

	Live    int64 // transfers under way
	Resting int64 // transfers that are over, and still answer repeats
	Held    int64 // bytes in buffers, of Server.Memory
}

// Counters returns the totals so far.
func (l *Listener) Counters() Counters {
	t := &l.totals
	c := Counters{
		PacketsIn:  t.packetsIn.Load(),
		PacketsOut: t.packetsOut.Load(),
		BytesIn:    t.bytesIn.Load(),
		BytesOut:   t.bytesOut.Load(),
		Strays:     t.strays.Load(),
		Unsent:     t.unsent.Load(),
		Unsaid:     t.unsaid.Load(),
		Crashes:    t.crashes.Load(),
		Malformed:  t.refused[refusedMalformed].Load(),
		Overload:   t.refused[refusedOverload].Load(),
		Denied:     t.refused[refusedDenied].Load(),
		Rate:       t.refused[refusedRate].Load(),
		PerClient:  t.refused[refusedPerClient].Load(),
		Busy:       t.refused[refusedBusy].Load(),
		Stopping:   t.refused[refusedStopping].Load(),
		Live:       l.count.Load(),
		Resting:    l.resting.Load(),
	}
	for sh := range l.allShards {
		c.Held += sh.memory.held.Load()
	}
	return c
}

// totals are the counters of all loops.
type totals struct {
	packetsIn, packetsOut, bytesIn, bytesOut atomic.Int64
	strays, unsent, unsaid, crashes          atomic.Int64
	refused                                  [refusals]atomic.Int64
}

// A tally is what one loop counts in a turn.
type tally struct {
	packetsIn, packetsOut, bytesIn, bytesOut int64
	strays, unsent                           int64
	refused                                  [refusals]int64
	anyRefused                               bool
}

func (t *tally) received(packets, bytes int) {
	t.packetsIn += int64(packets)
	t.bytesIn += int64(bytes)
}

func (t *tally) sent(packets, bytes int) {
	t.packetsOut += int64(packets)
	t.bytesOut += int64(bytes)
}

func (t *tally) refuse(reason int) {
	t.refused[reason]++
	t.anyRefused = true
}

// add takes over what a loop has counted since the last time. What is zero
// costs nothing: two loops would fight for the memory.
func (t *totals) add(n *tally) {
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
	if n.anyRefused {
		n.anyRefused = false
		for i := range n.refused {
			move(&t.refused[i], &n.refused[i])
		}
	}
}
