package link

import (
	"math/bits"
	"time"
)

// Stats holds the counters of a link since it came up.
type Stats struct {
	Ways [2]WayStats // counts of the packets that side A sent, then of those that side B sent

	CPU  time.Duration // processor time of the emulator, including the kernel's time for its system calls
	Wall time.Duration // time since the link came up

	// LateMedian, LateP99 and LateMax say how late packets were handed over, compared with the time
	// when they were due.
	LateMedian, LateP99, LateMax time.Duration
}

// CPUShare returns the fraction of one processor that the emulator has used.
func (s *Stats) CPUShare() float64 {
	if s.Wall <= 0 {
		return 0
	}
	return s.CPU.Seconds() / s.Wall.Seconds()
}

// Failures returns how many packets were dropped although the profile does not ask for it. A
// measurement with failures is not worth much.
func (s *Stats) Failures() uint64 {
	var n uint64
	for i := range s.Ways {
		w := &s.Ways[i]
		n += w.Overflow + w.Refused + w.DeviceDrops
	}
	return n
}

// WayStats holds the counters of one direction. Unless stated otherwise, they count packets as
// these would be on a wire.
type WayStats struct {
	Packets    uint64 // packets that the side has sent
	Bytes      uint64 // total length of these IP packets
	Delivered  uint64
	Lost       uint64 // lost because of the profile's Loss
	Duplicated uint64
	Reordered  uint64
	QueueDrops uint64 // dropped because the queue was full
	MaxQueue   uint64 // largest number of bytes of frames that waited because of the rate, including the frame being sent

	Overflow    uint64 // dropped because the emulator's memory was full
	Refused     uint64 // dropped because the receiving device refused them
	DeviceDrops uint64 // dropped by the sending device because the emulator was too slow
	Reads       uint64 // number of system calls that read packets
	Writes      uint64 // number of system calls that handed packets over
}

// since returns the counts since the earlier state `before`. Maxima and medians are not changed.
func (s Stats) since(before Stats) Stats {
	s.CPU -= before.CPU
	s.Wall -= before.Wall
	for i := range s.Ways {
		s.Ways[i].subtract(&before.Ways[i])
	}
	return s
}

func (w *WayStats) subtract(before *WayStats) {
	w.Packets -= before.Packets
	w.Bytes -= before.Bytes
	w.Delivered -= before.Delivered
	w.Lost -= before.Lost
	w.Duplicated -= before.Duplicated
	w.Reordered -= before.Reordered
	w.QueueDrops -= before.QueueDrops
	w.Overflow -= before.Overflow
	w.Refused -= before.Refused
	w.DeviceDrops -= before.DeviceDrops
	w.Reads -= before.Reads
	w.Writes -= before.Writes
}

// A histogram counts durations in buckets, eight for each doubling, so a bucket is up to 12 % wide.
type histogram struct {
	counts [64 * 8]uint64
	total  uint64
	max    int64
}

func (h *histogram) add(ns int64) {
	ns = max(ns, 0)
	h.max = max(h.max, ns)
	h.total++
	h.counts[bucket(uint64(ns))]++
}

// bucket returns the index of a number's bucket. The index consists of the position of the leading
// bit, and of the three bits after it.
func bucket(n uint64) int {
	if n < 8 {
		return int(n)
	}
	exponent := bits.Len64(n) - 1
	return (exponent-2)*8 + int(n>>(exponent-3))&7
}

// quantile returns the lower edge of the bucket that contains quantile q.
func (h *histogram) quantile(q float64) time.Duration {
	want := uint64(q * float64(h.total))
	var seen uint64
	for i, n := range h.counts {
		if seen += n; seen > want {
			if i < 8 {
				return time.Duration(i)
			}
			return time.Duration(8+i%8) << (i/8 - 1)
		}
	}
	return time.Duration(h.max)
}
