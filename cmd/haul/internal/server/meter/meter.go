// Package meter counts transfers, and shows the counts to Prometheus.
//
// A server reports to a [Registry] when a transfer begins, how far it is, and how it ended:
//
//	m := meter.New(meter.Config{Version: version, Protocols: []meter.Protocol{meter.TFTP}})
//	http.Handle("GET /metrics", m.Handler())
//
//	t := m.Begin(meter.Info{Protocol: meter.TFTP, Peer: peer, Name: name})
//	t.Reached(bytes) // now and then
//	t.End(meter.End{Result: meter.Done, Bytes: bytes, Duration: took})
//
// [Registry.Refuse] counts requests that were refused before they became transfers.
// [Registry.Counter] and [Registry.Gauge] show numbers that are kept elsewhere, and
// [Registry.Connections] shows the numbers of servers of connections.
//
// # Bounds
//
// Labels have values from short lists: protocols, directions, results, reasons. A value that is not
// in its list counts as "other". Addresses of peers and names of files never become labels. So
// packets from strangers cannot make the number of time series grow. At most [MaxLive] transfers
// under way are listed; further ones are still counted.
//
// # Cost
//
// Begin and End each take one of sixteen locks, for the time of adding an entry to a list.
// [Transfer.Add], [Transfer.Reached] and [Registry.Refuse] take no lock. All methods may be called
// at the same time. On a nil Registry or Transfer they do nothing.
package meter

import (
	"cmp"
	"iter"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A Config holds the options of a Registry.
type Config struct {
	// Version is the version of the program, for haul_build_info.
	Version string

	// Protocols are the protocols whose counters are shown from the start, at 0, so that the first
	// failure is visible as an increase. The counters of other protocols appear with their first
	// transfer or refusal.
	Protocols []Protocol

	// Ended is called for each transfer that ends, including those that Live does not list. It runs
	// in the goroutine that called End, so it must not block. Several goroutines may call it at the
	// same time.
	Ended func(Ended)
}

// A Registry counts transfers and lists the transfers under way. Use [New] to make one; a nil
// *Registry counts nothing.
type Registry struct {
	registry *prometheus.Registry
	families families
	counts   []protocolCounts // one for each entry of protocols, and one for other protocols
	live     table
	conns    conns
	ended    func(Ended) // Config.Ended; nil if there is no such function
}

// New returns an empty Registry. A process may have several Registries.
func New(c Config) *Registry {
	r := &Registry{
		registry: prometheus.NewRegistry(),
		families: newFamilies(),
		counts:   make([]protocolCounts, len(protocols)+1),
		conns:    conns{servers: make([][]ConnServer, len(protocols)+1)},
		ended:    c.Ended,
	}
	r.registerAll(c.Version)
	for _, p := range c.Protocols {
		r.of(p)
	}
	return r
}

// registerAll registers the metrics that a Registry shows: its own, the program's version, and the
// metrics of the process that the Go runtime and the operating system provide.
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

// of returns the counters of a protocol. All protocols without a constant share one set of
// counters.
func (r *Registry) of(p Protocol) *protocolCounts {
	at := place(protocols, p)
	c := &r.counts[at]
	c.once.Do(func() { c.init(&r.families, word(protocols, at), p == TFTP) })
	return c
}

// Begin counts a transfer as under way, until the method End of the returned Transfer is called.
func (r *Registry) Begin(i Info) *Transfer {
	if r == nil {
		return nil
	}
	if i.Began.IsZero() {
		i.Began = time.Now()
	}
	if len(i.Name) > maxName {
		// Clone the beginning of the name, so that the whole name can be freed. Drop a character
		// that was cut in the middle, because people read the name.
		i.Name = strings.ToValidUTF8(strings.Clone(i.Name[:maxName]), "")
	}
	t := &Transfer{registry: r, counts: r.of(i.Protocol).direction(i.Write), info: i}
	t.counts.live.Inc()
	if !r.live.add(t) {
		r.families.unlisted.Inc()
	}
	return t
}

// End counts the transfer as ended. After that, further calls of End and Add do nothing.
func (t *Transfer) End(e End) {
	if t == nil {
		return
	}
	t.Reached(e.Bytes)
	r, c := t.registry, t.counts
	if !r.live.remove(t) {
		return
	}
	if e.Duration == 0 {
		e.Duration = time.Since(t.info.Began)
	}
	c.live.Dec()
	c.results[place(results, e.Result)].Inc()
	r.families.countPackets(c, e.packets())
	if e.RTT > 0 {
		c.rtt.Observe(e.RTT.Seconds())
	}
	if e.Result.complete() {
		c.duration.Observe(max(e.Duration, 0).Seconds())
		c.size.Observe(float64(t.bytes.Load()))
	}
	if r.ended != nil {
		e.Bytes = t.bytes.Load()
		e.File = cmp.Or(e.File, t.info.Name)
		r.ended(Ended{ID: t.id, Info: t.info, End: e})
	}
}

// Refuse counts n requests that were refused before they became transfers.
func (r *Registry) Refuse(p Protocol, why Reason, n int64) {
	if r != nil {
		c, at := r.of(p), place(reasons, why)
		c.refused[at].Add(float64(n))
		c.away[at].Add(n)
	}
}

// Refused returns how many requests were refused before they became transfers, by reason. It omits
// reasons that have not occurred.
func (r *Registry) Refused(p Protocol) map[Reason]int64 {
	all := map[Reason]int64{}
	if r == nil {
		return all
	}
	c := &r.counts[place(protocols, p)]
	for i := range c.away {
		if n := c.away[i].Load(); n > 0 {
			all[Reason(word(reasons, i))] = n
		}
	}
	return all
}

// Live lists the transfers under way, in no order. It holds no lock while the caller handles a
// transfer, so transfers continue meanwhile. A transfer that begins or ends during the listing may
// or may not be in it.
func (r *Registry) Live() iter.Seq[Snapshot] {
	return func(yield func(Snapshot) bool) {
		if r == nil {
			return
		}
		var list []Snapshot
		for i := range r.live.parts {
			list = r.live.parts[i].snapshot(list[:0])
			for _, s := range list {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// Connections adds a server of connections. Its counters appear under the label of its protocol,
// and its connections in LiveConns. The server stays registered as long as the Registry exists.
// Servers with the same protocol are shown as one.
func (r *Registry) Connections(p Protocol, s ConnServer) {
	if r == nil {
		return
	}
	r.conns.mu.Lock()
	defer r.conns.mu.Unlock()
	at := place(protocols, p)
	r.conns.servers[at] = append(r.conns.servers[at], s)
}

// LiveConns lists the open connections of all registered servers, in no order. It holds no lock
// while the caller handles a connection.
func (r *Registry) LiveConns() iter.Seq[Conn] {
	return func(yield func(Conn) bool) {
		if r == nil {
			return
		}
		for at := range r.conns.servers {
			for _, s := range r.conns.of(at) {
				for peer := range s.Peers {
					if !yield(Conn{Protocol: Protocol(word(protocols, at)), Peer: peer}) {
						return
					}
				}
			}
		}
	}
}

// Counter shows a count that is kept elsewhere, such as a server's stray datagrams. name gets the
// prefix haul_ and must end in _total; help is a sentence. value is called at every scrape,
// possibly by several goroutines at once. It must not block, and its result must never decrease.
// labels are name, value, name, value; several counters may share a name if their labels have the
// same names and different values. Counter panics if the name is invalid or taken.
func (r *Registry) Counter(name, help string, value func() int64, labels ...string) {
	if r != nil {
		r.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help, ConstLabels: labelsOf(labels)},
			func() float64 { return float64(value()) }))
	}
}

// Gauge is like Counter, for a value that may go up and down. If the value has a unit, name ends in
// the unit, such as _bytes or _seconds.
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

// Gatherer returns the metrics for programs that do not use Handler, for example because they
// combine them with other metrics by [prometheus.Gatherers]. For a nil Registry the Gatherer is
// empty.
func (r *Registry) Gatherer() prometheus.Gatherer {
	if r == nil {
		return prometheus.Gatherers(nil)
	}
	return r.registry
}

// maxScrapes is how many scrapes are answered at the same time; further scrapes get status 503. A
// server usually has one or two scrapers.
const maxScrapes = 4

// Handler answers scrapes, in the format that the client requests. The answer contains neither
// peers nor names of files, so it may be shown to everyone who may see the server's totals. The
// Handler of a nil Registry answers 404.
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
