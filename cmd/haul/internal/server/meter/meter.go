// Package meter counts transfers, and shows the counts to Prometheus.
//
// A server reports to a [Registry] when a transfer begins, how far it is and
// how it ended:
//
//	m := meter.New(meter.Config{Version: version, Protocols: []meter.Protocol{meter.TFTP}})
//	http.Handle("GET /metrics", m.Handler())
//
//	t := m.Begin(meter.Info{Protocol: meter.TFTP, Peer: peer, Name: name})
//	t.Reached(bytes) // now and then
//	t.End(meter.End{Result: meter.Done, Bytes: bytes, Duration: took})
//
// Requests turned away before they became transfers are counted by
// [Registry.Refuse], and numbers that are kept elsewhere are shown by
// [Registry.Counter] and [Registry.Gauge]; those of servers of connections by
// [Registry.Connections].
//
// # Bounds
//
// Labels have values from short lists: protocols, directions, results,
// reasons. A value not in its list counts as "other", and neither a peer's
// address nor a file's name ever becomes a label. So a stranger's packets
// cannot make the number of time series grow. At most [MaxLive] transfers under
// way are listed; more are counted all the same.
//
// # Cost
//
// Begin and End each take one lock of sixteen, for the time that it takes to
// put an entry into a list; [Transfer.Add], [Transfer.Reached] and
// [Registry.Refuse] take none. All methods may be called at the same time, and
// on a nil Registry or Transfer, where they do nothing.
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

// A Protocol is what a transfer speaks: one of the constants, or it counts as
// "other".
type Protocol string

// The protocols.
const (
	TFTP  Protocol = "tftp"
	SFTP  Protocol = "sftp"
	HTTP  Protocol = "http"
	HTTPS Protocol = "https"
)

var protocols = []Protocol{TFTP, SFTP, HTTP, HTTPS}

// A Result is how a transfer ended: one of the constants, or it counts as
// "other". They are the words that stand in the log, too.
type Result string

// The results.
const (
	Done        Result = "done"
	Unconfirmed Result = "unconfirmed"   // all was sent, and the last acknowledgement never came
	Probe       Result = "probe"         // the peer wanted to know the size only
	Refused     Result = "refused"       // we said no, before any data
	PeerEnded   Result = "ended by peer" // the peer gave up, and said so
	PeerSilent  Result = "peer silent"   // the peer gave up, or the way to it did
	Replaced    Result = "replaced"      // the peer began anew
	Failed      Result = "failed"        // we could not continue
)

var results = []Result{Done, Unconfirmed, Probe, Refused, PeerEnded, PeerSilent, Replaced, Failed}

// complete says whether the file went over whole.
func (r Result) complete() bool { return r == Done || r == Unconfirmed }

// A Reason is why a request was turned away before it became a transfer: one
// of the constants, or it counts as "other".
type Reason string

// The reasons.
const (
	Busy      Reason = "busy"      // as many transfers as the server takes are under way
	Rate      Reason = "rate"      // more requests a second than are answered
	Address   Reason = "address"   // more for this address, or its network, than it may have
	Denied    Reason = "denied"    // the rules do not let this peer in
	Malformed Reason = "malformed" // no request that the protocol knows
	Overload  Reason = "overload"  // more at once than the server could look at
	Stopping  Reason = "stopping"  // the server ends
)

var (
	allReasons = [...]Reason{Busy, Rate, Address, Denied, Malformed, Overload, Stopping}
	reasons    = allReasons[:]
)

// other is the value of a label for what is not in its list.
const other = "other"

// place returns where v stands in list, or the place behind the last.
func place[T comparable](list []T, v T) int {
	if i := slices.Index(list, v); i >= 0 {
		return i
	}
	return len(list)
}

// word returns what stands at a place that [place] returned.
func word[T ~string](list []T, at int) string {
	if at < len(list) {
		return string(list[at])
	}
	return other
}

// A Config says what a Registry shows besides the reported transfers.
type Config struct {
	// Version is the program's, for haul_build_info.
	Version string

	// Protocols are those whose counters are shown from the beginning, at 0,
	// so that a first failure is seen as an increase. Other protocols' appear
	// with their first transfer or refusal.
	Protocols []Protocol

	// Ended is called for each transfer that ends, also for one that Live does not list.
	// The goroutine that has called End calls it, so it must not wait. It may be called by
	// several goroutines at the same time.
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
	ended    func(Ended) // nil if nobody is to know
}

// New returns a Registry that has counted nothing yet. Several may live in one
// process.
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

// Info is what is known of a transfer when it begins. Peer, Name and User are for Live and
// for Config.Ended only.
type Info struct {
	Protocol Protocol
	Write    bool           // the client sends the file; otherwise it reads it
	Peer     netip.AddrPort // the other side
	Name     string         // of the file, as the peer gave it; cut after 256 bytes
	User     string         // who has logged in; "" if nobody has
	Size     int64          // of the file, in bytes; 0 if it is not known
	Began    time.Time      // zero means now
}

// MaxLive is how many transfers under way a Registry lists. Of one beyond
// them, the bytes are counted when it ends.
const MaxLive = 1 << 16

// maxName is how much of a file's name is kept, in bytes. Names that protocols
// allow are longer, those that anybody can read are not.
const maxName = 256

// A Transfer is one that is under way. A nil *Transfer counts nothing.
type Transfer struct {
	registry *Registry
	counts   *directionCounts
	id       uint64
	info     Info
	bytes    atomic.Int64 // moved so far
	moved    atomic.Pointer[func() int64]
	way      atomic.Pointer[func() Way]

	slot    int   // in its part of the table, noSlot if not listed; under the part's lock
	counted int64 // of bytes, those in the counter already; under the part's lock
	ended   bool  // under the part's lock
}

// Begin counts a transfer as under way, until its End.
func (r *Registry) Begin(i Info) *Transfer {
	if r == nil {
		return nil
	}
	if i.Began.IsZero() {
		i.Began = time.Now()
	}
	if len(i.Name) > maxName {
		// A clone, so that the rest can go; whole characters, as it is for people.
		i.Name = strings.ToValidUTF8(strings.Clone(i.Name[:maxName]), "")
	}
	t := &Transfer{registry: r, counts: r.of(i.Protocol).direction(i.Write), info: i}
	t.counts.live.Inc()
	if !r.live.add(t) {
		r.families.unlisted.Inc()
	}
	return t
}

// Add counts n more bytes as moved; what is not above 0 is passed over.
func (t *Transfer) Add(n int64) {
	if t != nil && n > 0 {
		t.bytes.Add(n)
	}
}

// Reached says how many bytes have been moved since the beginning. It never
// takes any back. Use Add or Reached, whichever the protocol's code knows.
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

// Follow has a transfer ask how many bytes have been moved since the beginning,
// whenever a caller wants to know and at its end: for a protocol that counts by
// itself. moved must not wait. It takes the place of Add and Reached.
func (t *Transfer) Follow(moved func() int64) {
	if t != nil {
		t.moved.Store(&moved)
	}
}

// A Way is what a protocol measures of the way to its peer.
type Way struct {
	RTT    time.Duration // the smoothed round trip; 0 means not measured
	Window int           // how much is under way at most, in blocks; 0 means that the protocol has no window
	Resent int64         // datagrams sent again
}

// Measure has a transfer ask what is measured of the way to its peer, for Live. way must not
// wait.
func (t *Transfer) Measure(way func() Way) {
	if t != nil {
		t.way.Store(&way)
	}
}

// measured returns what the protocol has measured.
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

// End is what is known of a transfer when it has ended. Numbers below 0 count
// as 0.
type End struct {
	Result   Result
	Bytes    int64         // of the file, moved; less than Add and Reached have reported changes nothing
	Duration time.Duration // 0 means the time since Began
	RTT      time.Duration // the smoothed round trip; 0 means never measured

	// Of protocols that speak in datagrams. TFTP's are shown from the beginning,
	// at 0; Received, which a server may not count, and those of other protocols
	// once they have been above 0.
	Sent       int64 // datagrams sent, those sent again included
	Received   int64 // datagrams that came in
	Resent     int64 // of those sent, the ones that had been sent before
	Duplicates int64 // of those received, the ones that had come before
	Timeouts   int64 // times a timer ran out

	// For Config.Ended only.
	File   string // the whole name, as the peer gave it; "" means Info.Name
	Path   string // of the file on the disk; "" where that is not known
	Stored string // the name that an upload got, if it is not the peer's
	Err    error  // why the transfer ended; nil if it ended well
	Detail any    // what else the caller of End knows

	// Routine says that clients let transfers end like this every day, such as by asking for a
	// file that is not there: nobody needs to look.
	Routine bool
}

// Ended is a transfer that has ended.
type Ended struct {
	ID uint64 // its number among all since the start
	Info
	End // with File, Bytes and Duration
}

// End counts the transfer as ended. It does so once; a second call does
// nothing, and neither does Add after it.
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

// Refuse counts n requests that were turned away before they became transfers.
func (r *Registry) Refuse(p Protocol, why Reason, n int64) {
	if r != nil {
		c, at := r.of(p), place(reasons, why)
		c.refused[at].Add(float64(n))
		c.away[at].Add(n)
	}
}

// Refused returns how many requests were turned away before they became transfers, by why.
// Reasons that have not occurred are left out.
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
