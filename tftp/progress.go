package tftp

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// A Progress says how far a transfer is, with measurements of the path to its peer.
type Progress struct {
	Bytes  int64 // bytes of data that the peer has acknowledged, or has sent
	Resent int64 // number of datagrams that were sent again, at most 4,294,967,295
	// RTT is the smoothed round-trip time, with a precision of 1 us and at most 71 minutes; 0
	// before the first measurement.
	RTT    time.Duration
	Window int // number of blocks that are sent before an acknowledgement is due
}

// A progress holds what the loop of a session reports about its transfer. Other goroutines read it.
type progress struct {
	window int // set before other goroutines get the transfer, and not changed afterwards
	bytes  atomic.Int64
	// way has the round-trip time in microseconds in its upper half, and the number of datagrams
	// sent again in its lower half.
	way atomic.Uint64
}

// Progress returns the progress of a transfer. Any goroutine may call it between [Hooks].Started
// and [Hooks].Ended. It does not wait.
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

// report stores the current progress of a transfer.
func (p *progress) report(bytes int64, s transfer.Stats) {
	p.bytes.Store(bytes)
	rtt := min(uint64(s.RTT/time.Microsecond), math.MaxUint32)
	p.way.Store(rtt<<32 | min(uint64(s.Resent), math.MaxUint32))
}
