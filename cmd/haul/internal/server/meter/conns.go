package meter

import (
	"iter"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Conn describes an open connection of a server: its protocol and its peer.
type Conn struct {
	Protocol Protocol
	Peer
}

// A Peer describes one connection, with the addresses of both sides.
type Peer struct {
	Remote, Local net.Addr
	// Since is how long the connection has been open, to about a second; 0 if the server does not
	// record that.
	Since time.Duration
	Waits bool // the connection is idle, and waits for another request
}

// ConnCounters holds the counters that a server keeps of its connections.
type ConnCounters struct {
	Conns      int // number of open connections
	Handshakes int // number of TLS handshakes under way, except those that wait for data from the client

	Accepted      uint64
	Refused       uint64 // connections that were refused because of a limit
	TimedOut      uint64
	AcceptErrors  uint64
	BadHandshakes uint64 // connections whose TLS handshake or PROXY header failed
	Panics        uint64 // connections whose handler panicked
	Cut           uint64 // connections that were closed because the server shut down
}

// A ConnServer is a server of connections, such as a server of package tcp. The corresponding types
// of package tcp can be converted to the types here.
type ConnServer struct {
	Counters func() ConnCounters
	Peers    iter.Seq[Peer] // iterates over the peers of open connections
}

// conns holds the servers of connections. Each scrape asks them for their counters.
type conns struct {
	mu sync.Mutex
	// servers contains one list for each entry of `protocols`, and a last one for all other
	// protocols. mu guards the lists.
	servers [][]ConnServer
}

// of returns the servers in the list with this index.
func (c *conns) of(at int) []ConnServer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clip(c.servers[at])
}

// A connFamily is a metric that each server of connections has.
type connFamily struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(ConnCounters) uint64
}

var connFamilies = []connFamily{
	connGauge("connections", "Connections that there are.", func(c ConnCounters) uint64 { return uint64(c.Conns) }),
	connGauge("tls_handshakes", "TLS handshakes under way, but for those that wait for their client.", func(c ConnCounters) uint64 { return uint64(c.Handshakes) }),
	connCounter("accepted_total", "Connections accepted, and let in.", func(c ConnCounters) uint64 { return c.Accepted }),
	connCounter("refused_total", "Connections reset by a limit.", func(c ConnCounters) uint64 { return c.Refused }),
	connCounter("timed_out_total", "Connections that a time limit ended.", func(c ConnCounters) uint64 { return c.TimedOut }),
	connCounter("bad_handshakes_total", "Connections ended by a TLS handshake or PROXY header that failed.", func(c ConnCounters) uint64 { return c.BadHandshakes }),
	connCounter("accept_errors_total", "Times that accepting failed, such as for want of descriptors.", func(c ConnCounters) uint64 { return c.AcceptErrors }),
	connCounter("panics_total", "Connections that a fault of the program ended.", func(c ConnCounters) uint64 { return c.Panics }),
	connCounter("cut_total", "Connections ended because the server did.", func(c ConnCounters) uint64 { return c.Cut }),
}

func connGauge(name, help string, value func(ConnCounters) uint64) connFamily {
	return newConnFamily("", name, help, prometheus.GaugeValue, value)
}

func connCounter(name, help string, value func(ConnCounters) uint64) connFamily {
	return newConnFamily("connections", name, help, prometheus.CounterValue, value)
}

func newConnFamily(subsystem, name, help string, kind prometheus.ValueType, value func(ConnCounters) uint64) connFamily {
	desc := prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, name), help, []string{"protocol"}, nil)
	return connFamily{desc, kind, value}
}

// Describe implements [prometheus.Collector].
func (c *conns) Describe(out chan<- *prometheus.Desc) {
	for _, f := range connFamilies {
		out <- f.desc
	}
}

// Collect implements [prometheus.Collector].
func (c *conns) Collect(out chan<- prometheus.Metric) {
	for at := range c.servers {
		servers := c.of(at)
		if len(servers) == 0 {
			continue
		}
		all := make([]ConnCounters, len(servers))
		for i, s := range servers {
			all[i] = s.Counters()
		}
		for _, f := range connFamilies {
			sum := uint64(0)
			for _, counters := range all {
				sum += f.value(counters)
			}
			out <- prometheus.MustNewConstMetric(f.desc, f.kind, float64(sum), word(protocols, at))
		}
	}
}
