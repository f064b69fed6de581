package tftp

import (
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/haul-project/haul/tftp/internal/packetio"
)

// The source address of a request may be forged. Then a third party receives all that we send. So
// the following bounds apply to a transfer until it is proven that its peer exists: by data, or by
// an acknowledgement of data, from the peer.
const (
	// maxResending is how many unproven transfers of an address may repeat their first DATA when a
	// timer expires. Further transfers repeat it only when the peer repeats its request.
	maxResending = 128

	// maxUnproven is how many bytes of data all unproven transfers of an address may send together,
	// if no transfer of the address was proven recently. It allows a window of 64 blocks, for which
	// boot loaders ask.
	maxUnproven = 96 << 10

	// maxUnprovenKnown applies in place of maxUnproven if a transfer of the address was proven
	// within the last knownFor.
	maxUnprovenKnown = 64 << 20
	knownFor         = time.Minute

	// maxRefused is how many refused requests per second of one address are answered with an ERROR.
	// Further refused requests are only counted.
	maxRefused = 10

	// minSources is the smallest limit on the number of addresses that are remembered. The limit is
	// twice the possible number of transfers, including displaced ones, if that is larger. Each
	// address takes about 200 bytes.
	minSources = 1 << 16
)

// A guard counts the requests and transfers of each address. It is called once for each request,
// and once or twice more for each transfer, but never for each packet.
type guard struct {
	allow, deny []netip.Prefix
	perClient   int
	maxSources  int
	rate        int // requests per second that one address may send; negative means no limit
	rateOfLocal int // rate for loopback addresses, which cannot be forged

	mu      sync.Mutex
	sources map[netip.Addr]*source // guarded by mu
}

// A source holds the counts of one address.
type source struct {
	transfers int
	unproven  int
	credit    int64     // bytes of data granted to all unproven transfers of the address together
	proven    time.Time // when a transfer of the address was last proven

	tokens float64 // number of requests that the address could send at once at the time `filled`
	filled time.Time

	refused packetio.RateLimit
}

func (g *guard) reset(c *Config) {
	*g = guard{allow: c.Allow, deny: c.Deny, perClient: c.MaxPerClient, rate: c.Rate, rateOfLocal: c.Rate}
	if g.rate == 0 {
		g.rate, g.rateOfLocal = defaultRate, -1
	}
	g.maxSources = max(minSources, 2*2*c.MaxTransfers)
	g.sources = make(map[netip.Addr]*source)
}

// request counts a request from an address. If the request must be turned away, it returns an error
// that says why.
func (g *guard) request(now time.Time, from netip.Addr) error {
	from = from.Unmap()
	if !g.allowed(from) {
		return errDenied
	}
	rate := g.rate
	if from.IsLoopback() {
		rate = g.rateOfLocal
	}
	if rate < 0 {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.source(now, from)
	// The token bucket holds the requests of two seconds. The time of one loop may be a little
	// behind that of another, so the elapsed time may be negative. It is limited to -1 s, so that
	// an address loses at most the requests of one second when the clock is set back.
	elapsed := max(now.Sub(v.filled), -time.Second)
	v.tokens = min(v.tokens+elapsed.Seconds()*float64(rate), 2*float64(rate))
	v.filled = now
	if v.tokens < 1 {
		return errRate
	}
	v.tokens--
	return nil
}

// allowed reports whether Allow and Deny accept an address.
func (g *guard) allowed(a netip.Addr) bool {
	a = a.WithZone("") // Contains requires an address without a zone
	return (len(g.allow) == 0 || inAny(g.allow, a)) && !inAny(g.deny, a)
}

func inAny(networks []netip.Prefix, a netip.Addr) bool {
	for _, n := range networks {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

// begin counts a new transfer with an address. It returns an error if the address has too many
// transfers. quiet says that the transfer must not repeat its answer when a timer expires, because
// the address has many unproven transfers.
func (g *guard) begin(now time.Time, from netip.Addr) (quiet bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.source(now, from)
	if v.transfers >= g.perClient {
		return false, errPerClient
	}
	v.transfers++
	v.unproven++
	return v.unproven > maxResending && !from.IsLoopback(), nil
}

// grant allows an unproven transfer to send `want` bytes of data, or fewer if the unproven
// transfers of its address would exceed their limit. It returns how many bytes it allows. The
// result known reports whether a transfer of the address was proven recently and grant allows all
// `want` bytes.
func (g *guard) grant(now time.Time, from netip.Addr, want int64) (granted int64, known bool) {
	if from.IsLoopback() {
		return want, true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.source(now, from)
	most := int64(maxUnproven)
	known = now.Sub(v.proven) < knownFor
	if known {
		most = maxUnprovenKnown
	}
	granted = max(0, min(want, most-v.credit))
	v.credit += granted
	return granted, known && granted == want
}

// release ends the unproven state of a transfer, which is now proven or over, and gives back the
// bytes granted to it.
func (g *guard) release(now time.Time, from netip.Addr, granted int64, proven bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.sources[from.Unmap()]
	if v == nil {
		return
	}
	v.unproven--
	if proven {
		v.proven = now
	}
	if !from.IsLoopback() {
		v.credit -= granted
	}
}

// end removes a transfer that is over from the count of its address.
func (g *guard) end(from netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if v := g.sources[from.Unmap()]; v != nil {
		v.transfers--
	}
}

// mayRefuse reports whether a refused request from an address may be answered with an ERROR.
func (g *guard) mayRefuse(now time.Time, to netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.source(now, to)
	return v.refused.Allow(now, maxRefused)
}

// source returns the entry for an address, and creates it if necessary. The caller holds mu.
func (g *guard) source(now time.Time, a netip.Addr) *source {
	a = a.Unmap()
	v := g.sources[a]
	if v == nil {
		if len(g.sources) >= g.maxSources {
			g.dropIdle()
		}
		v = &source{tokens: math.Inf(1), filled: now}
		g.sources[a] = v
	}
	return v
}

// dropIdle drops the addresses without transfers. That is at least half of the table, because the
// table has room for twice as many addresses as there can be transfers. The caller holds mu.
func (g *guard) dropIdle() {
	for a, v := range g.sources {
		if v.transfers == 0 {
			delete(g.sources, a)
		}
	}
}

// idle reports whether no transfers are counted. Tests use it.
func (g *guard) idle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, v := range g.sources {
		if v.transfers != 0 || v.unproven != 0 || v.credit != 0 {
			return false
		}
	}
	return true
}
