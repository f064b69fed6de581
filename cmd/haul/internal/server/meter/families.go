package meter

import (
	"cmp"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// namespace is the prefix of the names of our metrics.
const namespace = "haul"

// Bounds of the buckets of histograms. They are part of the meaning of the metrics: changing them
// breaks dashboards.
var (
	// From a peer behind one switch to a peer behind a satellite, and TFTP's longest first timer.
	rttBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 3}

	// From a boot ROM's configuration file to a disk image over a slow link.
	durationBuckets = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 1800, 3600}

	// From one block of RFC 1350 to the largest upload that is accepted by default.
	sizeBuckets = []float64{512, 4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20, 128 << 20, 1 << 30, 16 << 30}
)

// families are the metrics, each with all its labels.
type families struct {
	transfers, bytes, refused *prometheus.CounterVec
	live                      *prometheus.GaugeVec
	rtt, duration, size       *prometheus.HistogramVec
	unlisted                  prometheus.Counter

	// One for each number that packetCounts returns.
	packets [5]*prometheus.CounterVec
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
		packets: [...]*prometheus.CounterVec{
			packets("packets_sent_total", "Datagrams sent by transfers that have ended, those sent again included."),
			packets("resends_total", "Datagrams of those sent that had been sent before."),
			packets("duplicates_total", "Datagrams received that had come before."),
			packets("timeouts_total", "Times that the timer of a transfer ran out."),
			packets("packets_received_total", "Datagrams received by transfers that have ended."),
		},
	}
}

// received is the index of End.Received in the result of packetCounts.
const received = 4

// packetCounts returns the numbers of e in the order of families.packets.
func packetCounts(e End) [5]int64 {
	return [...]int64{e.Sent, e.Resent, e.Duplicates, e.Timeouts, received: e.Received}
}

// countPackets adds the packets of a transfer that has ended.
func (f *families) countPackets(c *directionCounts, e End) {
	for i, n := range packetCounts(e) {
		if n > 0 {
			f.packets[i].WithLabelValues(c.protocol, c.direction).Add(float64(n))
		}
	}
}

// all returns the collectors that are registered directly: all but bytes, see bytesCounter.
func (f *families) all() []prometheus.Collector {
	list := []prometheus.Collector{f.transfers, f.refused, f.live, f.rtt, f.duration, f.size, f.unlisted}
	for _, p := range f.packets {
		list = append(list, p)
	}
	return list
}

// protocolCounts are the counters of one protocol.
type protocolCounts struct {
	once       sync.Once // the counters appear when the protocol is first used
	refused    []prometheus.Counter
	away       [len(allReasons) + 1]atomic.Int64 // the same counts as in refused
	directions [2]directionCounts                // read and write
}

func (c *protocolCounts) direction(write bool) *directionCounts {
	if write {
		return &c.directions[1]
	}
	return &c.directions[0]
}

// directionCounts are the counters of one protocol in one direction, looked up only once.
type directionCounts struct {
	protocol, direction string
	results             []prometheus.Counter // one for each of results, and one for others
	live                prometheus.Gauge
	bytes               prometheus.Counter
	rtt, duration, size prometheus.Observer
}

// init looks up the counters of a protocol, so that they are shown from then on.
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

// registerAll registers the metrics that a Registry shows: its own, the program's version, and
// those of the process that the Go runtime and the operating system provide.
func (r *Registry) registerAll(version string) {
	r.registry.MustRegister(r.families.all()...)
	r.registry.MustRegister(
		bytesCounter{r.families.bytes, &r.live},
		&r.conns,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: namespace,
			Name:      "build_info",
			Help:      "Always 1; the labels say which program this is.",
			ConstLabels: prometheus.Labels{
				"version":   cmp.Or(strings.ToValidUTF8(version, "?"), "unknown"),
				"goversion": runtime.Version(),
			},
		}, func() float64 { return 1 }),
	)
}

// bytesCounter is the counter of bytes. Before it is read, it adds the bytes of transfers under
// way.
type bytesCounter struct {
	*prometheus.CounterVec
	live *table
}

// Collect implements [prometheus.Collector].
func (s bytesCounter) Collect(out chan<- prometheus.Metric) {
	s.live.flush()
	s.CounterVec.Collect(out)
}

// Counter shows a count that is kept elsewhere, such as a server's stray datagrams. name gets the
// prefix haul_ and must end in _total; help is a sentence. value is called at every scrape,
// possibly by several goroutines at once. It must not block, and must never return less than
// before. labels are name, value, name, value; several counters may share a name if their labels
// have the same names and different values. Counter panics if the name is invalid or taken.
func (r *Registry) Counter(name, help string, value func() int64, labels ...string) {
	if r != nil {
		r.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help, ConstLabels: labelsOf(labels)},
			func() float64 { return float64(value()) }))
	}
}

// Gauge is like Counter, for a value that may go up and down. name ends in the unit if there is
// one: _bytes, _seconds.
func (r *Registry) Gauge(name, help string, value func() float64, labels ...string) {
	if r != nil {
		r.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help, ConstLabels: labelsOf(labels)}, value))
	}
}

func labelsOf(pairs []string) prometheus.Labels {
	labels := prometheus.Labels{}
	for pair := range slices.Chunk(pairs, 2) {
		labels[pair[0]] = pair[1]
	}
	return labels
}

// Gatherer returns the metrics for programs that show them in their own way, for example together
// with others by [prometheus.Gatherers]. A nil Registry returns an empty one.
func (r *Registry) Gatherer() prometheus.Gatherer {
	if r == nil {
		return prometheus.Gatherers(nil)
	}
	return r.registry
}

// maxScrapes is how many scrapes are answered at the same time; further ones get status 503. A
// server usually has one or two scrapers.
const maxScrapes = 4

// Handler answers a scrape, in the format that the client requests. Everyone who may see figures of
// the server may see the answer: it contains no peers and no names of files. The Handler of a nil
// Registry answers 404.
func (r *Registry) Handler() http.Handler {
	if r == nil {
		return http.NotFoundHandler()
	}
	return promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes,
		// An answer has about 20 KB. A compressor for it would hold a megabyte.
		DisableCompression: true,
	})
}
