package tftp

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// A Progress is the progress of a transfer, with measurements of the path to the peer.
type Progress struct {
	Bytes  int64         // bytes that the peer has acknowledged or sent
	Resent int64         // datagrams that were sent again, up to 4,294,967,295
	RTT    time.Duration // the smoothed round trip, in microseconds up to 71 minutes; 0 before the first measurement
	Window int           // blocks that are sent before an acknowledgement is due
}

// A progress holds the values that a session's loop reports about its transfer, for other
// goroutines to read.
type progress struct {
	window int // set before other goroutines know the transfer
	bytes  atomic.Int64
	way    atomic.Uint64 // round trip in microseconds in the upper half, datagrams sent again in the lower
}

// Progress returns the progress of a transfer. Any goroutine may call it at any time between
// [Hooks].Started and [Hooks].Ended; it does not wait.
func (t *Transfer) Progress() Progress {
	if t.progress == nil {
		return Progress{}
	}
	way := t.progress.way.Load()
	return Progress{
		Bytes: t.progress.bytes.Load(), Resent: int64(way & math.MaxUint32), RTT: time.Duration(way>>32) * time.Microsecond,
		Window: t.progress.window,
	}
}

// report stores the progress of a transfer.
func (p *progress) report(bytes int64, s transfer.Stats) {
	p.bytes.Store(bytes)
	rtt := min(uint64(s.RTT/time.Microsecond), math.MaxUint32)
	p.way.Store(rtt<<32 | min(uint64(s.Resent), math.MaxUint32))
}
