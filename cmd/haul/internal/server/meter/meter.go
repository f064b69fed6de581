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
// [Registry.Connections] shows those of servers of connections.
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
// [Transfer.Add], [Transfer.Reached] and [Registry.Refuse] take none. All methods may be called at
// the same time. On a nil Registry or Transfer they do nothing.
package meter

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Protocol is the protocol of a transfer. Values other than the constants count as "other".
type Protocol string

// The protocols.
const (
	TFTP  Protocol = "tftp"
	SFTP  Protocol = "sftp"
	HTTP  Protocol = "http"
	HTTPS Protocol = "https"
)

var protocols = []Protocol{TFTP, SFTP, HTTP, HTTPS}

// A Result is how a transfer ended. Values other than the constants count as "other". The log uses
// the same words.
type Result string

// The results.
const (
	Done        Result = "done"
	Unconfirmed Result = "unconfirmed"   // everything was sent, but the last acknowledgement did not arrive
	Probe       Result = "probe"         // the peer only wanted the size
	Refused     Result = "refused"       // refused by us before any data
	PeerEnded   Result = "ended by peer" // the peer gave up, and reported it
	PeerSilent  Result = "peer silent"   // the peer or the path to it failed
	Replaced    Result = "replaced"      // the peer started again
	Failed      Result = "failed"        // we could not continue
)

var results = []Result{Done, Unconfirmed, Probe, Refused, PeerEnded, PeerSilent, Replaced, Failed}

// complete reports whether the whole file was transferred.
func (r Result) complete() bool { return r == Done || r == Unconfirmed }

// A Reason is why a request was refused before it became a transfer. Values other than the
// constants count as "other".
type Reason string

// The reasons.
const (
	Busy      Reason = "busy"      // the maximum number of transfers is under way
	Rate      Reason = "rate"      // too many requests a second
	Address   Reason = "address"   // too many for this address or its network
	Denied    Reason = "denied"    // the rules exclude this peer
	Malformed Reason = "malformed" // not a valid request of the protocol
	Overload  Reason = "overload"  // too many requests at once to look at
	Stopping  Reason = "stopping"  // the server is ending
)

var (
	allReasons = [...]Reason{Busy, Rate, Address, Denied, Malformed, Overload, Stopping}
	reasons    = allReasons[:]
)

// other is the label for values that are not in their list.
const other = "other"

// place returns the index of v in list; len(list) if it is not there.
func place[T comparable](list []T, v T) int {
	if i := slices.Index(list, v); i >= 0 {
		return i
	}
	return len(list)
}

// word returns the value at an index that [place] returned.
func word[T ~string](list []T, at int) string {
	if at < len(list) {
		return string(list[at])
	}
	return other
}

// A Config says what a Registry shows besides the reported transfers.
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

// A Registry counts transfers and lists those under way. Use [New] for one; a
// nil *Registry counts nothing.
type Registry struct {
	registry *prometheus.Registry
	families families
	counts   []protocolCounts // one for each of protocols, and one for others
	live     table
	conns    conns
	ended    func(Ended) // nil if it is not used
}

// New returns an empty Registry. A process may have several.
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

// of returns the counters of a protocol.
func (r *Registry) of(p Protocol) *protocolCounts {
	at := place(protocols, p)
	c := &r.counts[at]
	c.once.Do(func() { c.init(&r.families, word(protocols, at), p == TFTP) })
	return c
}

// Info describes a transfer when it begins. Only Live and Config.Ended use Peer, Name and User.
type Info struct {
	Protocol Protocol
	Write    bool           // the client sends the file; otherwise it reads it
	Peer     netip.AddrPort // the other side
	Name     string         // of the file, as the peer gave it; cut after 256 bytes
	User     string         // the user who has logged in; "" if there is none
	Size     int64          // of the file, in bytes; 0 if it is not known
	Began    time.Time      // zero means now
}

// MaxLive is how many transfers under way a Registry lists. The bytes of further ones are counted
// when they end.
const MaxLive = 1 << 16

// maxName is how many bytes of a file's name are kept. Protocols allow longer names, but people
// cannot read them.
const maxName = 256

// A Transfer is a transfer under way. A nil *Transfer counts nothing.
type Transfer struct {
	registry *Registry
	counts   *directionCounts
	id       uint64
	info     Info
	bytes    atomic.Int64 // moved so far
	moved    atomic.Pointer[func() int64]
	way      atomic.Pointer[func() Way]

	slot    int   // in its part of the table, noSlot if not listed; under the part's lock
	counted int64 // bytes that the counter already has; under the part's lock
	ended   bool  // under the part's lock
}

// Begin counts a transfer as under way until its End.
func (r *Registry) Begin(i Info) *Transfer {
	if r == nil {
		return nil
	}
	if i.Began.IsZero() {
		i.Began = time.Now()
	}
	if len(i.Name) > maxName {
		// Clone, so that the rest can be freed. Keep whole characters, because the name is for
		// people.
		i.Name = strings.ToValidUTF8(strings.Clone(i.Name[:maxName]), "")
	}
	t := &Transfer{registry: r, counts: r.of(i.Protocol).direction(i.Write), info: i}
	t.counts.live.Inc()
	if !r.live.add(t) {
		r.families.unlisted.Inc()
	}
	return t
}

// Add counts n more bytes as moved. It ignores n if it is not above 0.
func (t *Transfer) Add(n int64) {
	if t != nil && n > 0 {
		t.bytes.Add(n)
	}
}

// Reached sets how many bytes have been moved since the beginning. The number never decreases. Use
// Add or Reached, whichever fits the protocol's code.
func (t *Transfer) Reached(total int64) {
	if t == nil {
		return
	}
	for {
		old := t.bytes.Load()
		if total <= old || t.bytes.CompareAndSwap(old, total) {
			return
		}
	}
}

// Follow sets a function that returns how many bytes have been moved since the beginning. It is
// called when the number is needed and at the end. It is for a protocol that counts by itself, in
// place of Add and Reached. moved must not block.
func (t *Transfer) Follow(moved func() int64) {
	if t != nil {
		t.moved.Store(&moved)
	}
}

// A Way is what a protocol measures of the path to its peer.
type Way struct {
	RTT    time.Duration // the smoothed round trip; 0 means not measured
	Window int           // the most blocks under way; 0 means that the protocol has no window
	Resent int64         // datagrams sent again
}

// Measure sets a function that returns measurements of the path to the peer, for Live. way must not
// block.
func (t *Transfer) Measure(way func() Way) {
	if t != nil {
		t.way.Store(&way)
	}
}

// measured returns the protocol's measurements.
func (t *Transfer) measured() (w Way) {
	if way := t.way.Load(); way != nil {
		w = (*way)()
	}
	return w
}

// progress returns how many bytes have been moved so far.
func (t *Transfer) progress() int64 {
	if moved := t.moved.Load(); moved != nil {
		t.Reached((*moved)())
	}
	return t.bytes.Load()
}

// End describes a transfer that has ended. Negative numbers count as 0.
type End struct {
	Result   Result
	Bytes    int64         // moved of the file; a number below that of Add and Reached is ignored
	Duration time.Duration // 0 means the time since Began
	RTT      time.Duration // the smoothed round trip; 0 means never measured

	// Only for protocols that use datagrams. TFTP's numbers are shown from the start, at 0.
	// Received, which a server need not count, and those of other protocols are shown once they
	// have been above 0.
	Sent       int64 // datagrams sent, including repeated ones
	Received   int64 // datagrams received
	Resent     int64 // datagrams sent again
	Duplicates int64 // datagrams received again
	Timeouts   int64 // times a timer ran out

	// For Config.Ended only.
	File   string // the whole name, as the peer gave it; "" means Info.Name
	Path   string // of the file on disk; "" if it is not known
	Stored string // the name that an upload got, if it differs from the peer's
	Err    error  // why the transfer ended; nil if it succeeded
	Detail any    // further data from the caller of End

	// Routine says that an end like this is normal and needs no attention. For example, clients
	// often ask for a missing file.
	Routine bool
}

// Ended is a transfer that has ended.
type Ended struct {
	ID uint64 // consecutive since the start
	Info
	End // File, Bytes and Duration are set
}

// End counts the transfer as ended. A second call does nothing, and neither does Add after it.
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
	r.families.countPackets(c, e)
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
