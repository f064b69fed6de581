package load

import (
	"strings"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// A Report is how a run went. Times are from its first transfer's begin to its
// last one's end; the warm-up is not in it, nor what Verify fetched but for
// Verified, Failed and Errors.
type Report struct {
	Duration  time.Duration
	Transfers int64 // that have ended
	Failed    int64 // of those, not as they should
	Cut       int64 // that were under way when the run was broken off; not in Transfers
	Verified  int64 // fetched again, and found to be right

	// Errors says why transfers failed, and how many for each reason. There are
	// at most maxErrors reasons; the others are counted as one.
	Errors map[string]int64

	Bytes      int64 // of file content moved, without repeats; failed transfers count
	Packets    int64 // DATA packets that carried it, without repeats
	Resent     int64 // packets that were sent again
	Duplicates int64 // packets that came again
	Timeouts   int64 // times that a timer of ours ran out
	Late       int64 // transfers that began more than 1 ms after they were due, where there is a Rate

	Latency Latency // of transfers that went well, from request to last packet
	First   Latency // of all, from the request to the first answer

	// BlockSize and Window are what the server agreed to, in bytes and blocks,
	// in the latest transfer that went well.
	BlockSize, Window int

	// CPU is what this process used, user and system time together. Busy is the
	// part of the time, 0 to 1, that the busiest loop did not wait for packets:
	// it worked, or others had the processors.
	CPU  time.Duration
	Busy float64

	Loops int // that there were
}

// A Latency has percentiles, off by less than one in a hundred, and the exact
// maximum.
type Latency struct {
	P50, P90, P99, Max time.Duration
}

const (
	// saturatedAt is how busy a loop may be before what it measures is itself,
	// in a run that is long enough to judge.
	saturatedAt = 0.9
	longEnough  = 100 * time.Millisecond

	// atWork is the least part of its time for which a busy loop then has a
	// processor. With less, it mostly waits for one that others have taken.
	atWork = 0.75
)

// Saturated reports whether the generator had its hands full: the figures are
// then its own rather than the server's. A generator that was kept from working by
// a server on the same processors is not meant.
func (r *Report) Saturated() bool {
	worked := r.CPU == 0 || r.CPUShare() > atWork*float64(r.Loops) // 0 where it is not known
	return r.Busy > saturatedAt && worked && r.Duration >= longEnough
}

// silent reports whether no transfer got any answer, so that each ran out of time.
func (r *Report) silent() bool {
	if r.Transfers == 0 || r.Failed < r.Transfers || r.First != (Latency{}) {
		return false
	}
	for text := range r.Errors {
		if !strings.Contains(text, "not done in ") && !strings.Contains(text, transfer.ErrSilent.Error()) {
			return false // this machine's doing, such as that it has no port left
		}
	}
	return true
}

// PerSecond returns bytes and DATA packets a second, as floating-point numbers.
func (r *Report) PerSecond() (bytes, packets float64) {
	if r.Duration <= 0 {
		return 0, 0
	}
	return float64(r.Bytes) / r.Duration.Seconds(), float64(r.Packets) / r.Duration.Seconds()
}

// CPUShare returns how much of one processor this process used: 1 is all of it.
func (r *Report) CPUShare() float64 {
	if r.Duration <= 0 {
		return 0
	}
	return r.CPU.Seconds() / r.Duration.Seconds()
}
