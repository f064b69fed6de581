package load

import (
	"strings"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// A Report is the result of a run. Times count from the beginning of the first transfer to the end
// of the last one. The report does not include the warm-up. The downloads that Verify makes count
// only in Verified, Failed and Errors.
type Report struct {
	Duration  time.Duration
	Transfers int64 // transfers that have ended
	Failed    int64 // how many of Transfers failed
	Cut       int64 // transfers that were under way when the run was aborted; Transfers does not include them
	Verified  int64 // uploads that were fetched again and are correct

	// Errors counts the failed transfers by reason. It has at most maxErrors reasons, and one more
	// entry that counts all others.
	Errors map[string]int64

	Bytes      int64 // bytes of file content moved, without repeats; includes failed transfers
	Packets    int64 // DATA packets that carried this content, without repeats
	Resent     int64 // packets that were sent again
	Duplicates int64 // packets that were received again
	Timeouts   int64 // how many times a timer of the generator expired
	Late       int64 // transfers that began more than 1 ms after they were due, if there is a Rate

	Latency Latency // times of successful transfers, from the request to the last packet
	First   Latency // times of all transfers, from the request to the first answer

	// BlockSize, in bytes, and Window, in blocks, are the values that the server agreed to in the
	// latest successful transfer.
	BlockSize, Window int

	// CPU is the user and system time of this process. Busy is the part of the time, 0 to 1, during
	// which the busiest loop did not wait for packets: it worked, or waited for a processor.
	CPU  time.Duration
	Busy float64

	Loops int // number of loops that drove the transfers
}

// A Latency holds percentiles with an error below 1 %, and the exact maximum.
type Latency struct {
	P50, P90, P99, Max time.Duration
}

const (
	// If Report.Busy is above saturatedAt, in a run of at least longEnough, the run measures the
	// generator itself.
	saturatedAt = 0.9
	longEnough  = 100 * time.Millisecond

	// atWork is the smallest share of a processor, 0 to 1, that each loop uses on average if the
	// generator is saturated. With a smaller share, the loops are busy mostly because they wait for
	// a processor.
	atWork = 0.75
)

// Saturated reports whether the generator was the bottleneck. The figures then describe the
// generator rather than the server. Saturated returns false if the generator was slow only because
// a server used the same processors.
func (r *Report) Saturated() bool {
	worked := r.CPU == 0 || r.CPUShare() > atWork*float64(r.Loops) // the CPU time is 0 if it is unknown
	return r.Busy > saturatedAt && worked && r.Duration >= longEnough
}

// silent reports whether all transfers timed out without an answer.
func (r *Report) silent() bool {
	if r.Transfers == 0 || r.Failed < r.Transfers || r.First != (Latency{}) {
		return false
	}
	for text := range r.Errors {
		if !strings.Contains(text, "not done in ") && !strings.Contains(text, transfer.ErrSilent.Error()) {
			return false // caused by this machine, for example because it has no free port
		}
	}
	return true
}

// PerSecond returns how many bytes and DATA packets were moved per second.
func (r *Report) PerSecond() (bytes, packets float64) {
	if r.Duration <= 0 {
		return 0, 0
	}
	return float64(r.Bytes) / r.Duration.Seconds(), float64(r.Packets) / r.Duration.Seconds()
}

// CPUShare returns the share of one processor that this process used; 1 is a whole processor.
func (r *Report) CPUShare() float64 {
	if r.Duration <= 0 {
		return 0
	}
	return r.CPU.Seconds() / r.Duration.Seconds()
}
