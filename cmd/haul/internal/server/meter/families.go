package meter

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// namespace is the prefix of the names of our metrics.
const namespace = "haul"

// These are the bounds of the buckets of histograms. They are part of the meaning of the metrics:
// changing them breaks dashboards.
var (
	// rttBuckets range from the round trip to a peer behind one switch to that of a peer behind a
	// satellite, and further to the longest first timer of TFTP.
	rttBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 3}

	// durationBuckets range from the transfer of a boot ROM's configuration file to that of a disk
	// image over a slow link.
	durationBuckets = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800, 3600}

	// sizeBuckets range from one block of RFC 1350 to the largest upload that is accepted by
	// default.
	sizeBuckets = []float64{512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20, 128 << 20, 1 << 30, 16 << 30}
)

// families holds the metrics of transfers. Each metric has a time series for each combination of
// labels.
type families struct {
	transfers, bytes, refused *prometheus.CounterVec
	live                      *prometheus.GaugeVec
	rtt, duration, size       *prometheus.HistogramVec
	unlisted                  prometheus.Counter

	packets [numPackets]*prometheus.CounterVec // one metric for each entry of packetCounts
}

func newFamilies() families {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, []string{"protocol", "direction"})
	}
	packets := func(name, help string) *prometheus.CounterVec { return counter(name, help, "protocol", "direction") }
	return families{
		transfers: counter("transfers_total", "Transfers that have ended, by how.", "protocol", "direction", "result"),
		bytes:     counter("bytes_total", "Bytes of files moved, by transfers under way too.", "protocol", "direction"),
		refused:   counter("refused_total", "Requests turned away by a limit, or malformed, by why.", "protocol", "reason"),
		live: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "transfers_live", Help: "Transfers under way.",
		}, []string{"protocol", "direction"}),
		rtt:      histogram("round_trip_seconds", "Smoothed round trip at the end of a transfer, where one was measured.", rttBuckets),
		duration: histogram("transfer_duration_seconds", "Duration of transfers that moved the whole file.", durationBuckets),
		size:     histogram("transfer_size_bytes", "Size of files that were moved whole.", sizeBuckets),
		unlisted: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "transfers_unlisted_total", Help: "Transfers for which the list of those under way had no room.",
		}),
		packets: [...]*prometheus.CounterVec{ // an array, so that the code does not compile if a metric is missing
			packets("packets_sent_total", "Datagrams sent by transfers that have ended, those sent again included."),
			packets("resends_total", "Datagrams of those sent that had been sent before."),
			packets("duplicates_total", "Datagrams received that had come before."),
			packets("timeouts_total", "Times that the timer of a transfer ran out."),
			packets("packets_received_total", "Datagrams received by transfers that have ended."),
		},
	}
}

// packetCounts holds the numbers of datagrams of one transfer, in the order of families.packets.
type packetCounts [numPackets]int64

const (
	received   = 4 // index of the count of received datagrams, which not every server counts
	numPackets = 5
)

// countPackets adds the datagrams of a transfer that has ended.
func (f *families) countPackets(c *directionCounts, counts packetCounts) {
	for i, n := range counts {
		if n > 0 {
			f.packets[i].WithLabelValues(c.protocol, c.direction).Add(float64(n))
		}
	}
}

// all returns the collectors that are registered directly. It leaves out the field bytes, because a
// bytesCounter is registered in place of that field.
func (f *families) all() []prometheus.Collector {
	list := []prometheus.Collector{f.transfers, f.refused, f.live, f.rtt, f.duration, f.size, f.unlisted}
	for _, p := range f.packets {
		list = append(list, p)
	}
	return list
}

// protocolCounts holds the counters of one protocol.
type protocolCounts struct {
	once       sync.Once // ensures that the counters are created only once, when the protocol is first used
	refused    []prometheus.Counter
	away       [len(allReasons) + 1]atomic.Int64 // a second copy of the counts in `refused`, for Registry.Refused to read
	directions [2]directionCounts                // index 0 for reads, 1 for writes
}

func (c *protocolCounts) direction(write bool) *directionCounts {
	if write {
		return &c.directions[1]
	}
	return &c.directions[0]
}

// directionCounts holds the counters of one protocol in one direction, so that they need not be
// looked up for each transfer.
type directionCounts struct {
	protocol, direction string
	results             []prometheus.Counter // one for each entry of results, and one for other results
	live                prometheus.Gauge
	bytes               prometheus.Counter
	rtt, duration, size prometheus.Observer
}

// init creates the counters of a protocol, so that scrapes show them from then on.
func (c *protocolCounts) init(f *families, protocol string, datagrams bool) {
	for i := range len(reasons) + 1 {
		c.refused = append(c.refused, f.refused.WithLabelValues(protocol, word(reasons, i)))
	}
	for i, direction := range []string{"read", "write"} {
		d := directionCounts{
			protocol:  protocol,
			direction: direction,
			live:      f.live.WithLabelValues(protocol, direction),
			bytes:     f.bytes.WithLabelValues(protocol, direction),
			rtt:       f.rtt.WithLabelValues(protocol, direction),
			duration:  f.duration.WithLabelValues(protocol, direction),
			size:      f.size.WithLabelValues(protocol, direction),
		}
		for i := range len(results) + 1 {
			d.results = append(d.results, f.transfers.WithLabelValues(protocol, direction, word(results, i)))
		}
		if datagrams {
			for _, p := range f.packets[:received] {
				p.WithLabelValues(protocol, direction)
			}
		}
		c.directions[i] = d
	}
}
