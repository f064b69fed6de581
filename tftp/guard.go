package tftp

import (
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/haul-project/haul/tftp/internal/packetio"
)

// The address of a request may be forged, and then a third party receives all that we send. So
// these bounds apply to an address until it has shown that it exists. A transfer is proven genuine
// when the peer sends data or acknowledges data.
const (
	// maxResending is the number of unproven transfers of an address for which the timer repeats
	// the first DATA. Further transfers send it again only when the peer repeats its request.
	maxResending = 128

	// maxUnproven is how many bytes of data all unproven transfers of an address together may send,
	// if the address has not proven itself. It allows the window of 64 blocks that boot loaders ask
	// for.
	maxUnproven = 96 << 10

	// maxUnprovenKnown is the same for an address that has proven itself within the last knownFor.
	maxUnprovenKnown = 64 << 20
	knownFor         = time.Minute

	// maxRefused is how many requests of an address per second are refused with an ERROR because of
	// a limit. Further requests are only counted.
	maxRefused = 10

	// minSources is how many addresses are remembered at least: twice the possible number of
	// transfers, including displaced ones, if that is more. Each takes about 200 bytes.
	minSources = 1 << 16
)

// A guard counts the requests and transfers of each address. It is called once for each request and
// once or twice more for each transfer, never for a single packet.
type guard struct {
	allow, deny []netip.Prefix
	perClient   int
	maxSources  int
	rate        int // requests per second from one address
	rateOfLocal int // the same for loopback, where addresses cannot be forged

	mu      sync.Mutex
	sources map[netip.Addr]*source // mu
}

// A source is an address that has sent requests.
type source struct {
	transfers int
	unproven  int
	credit    int64     // bytes granted to unproven transfers
	proven    time.Time // when a transfer was last proven

	tokens float64 // requests that it may send at once, as of the time filled
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

// request counts a request. It returns an error with the reason if the request must be turned away.
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
	// behind that of another, so the elapsed time may be negative. Its bound ensures that a step of
	// the clock costs at most one second's requests.
	elapsed := max(now.Sub(v.filled), -time.Second)
	v.tokens = min(v.tokens+elapsed.Seconds()*float64(rate), 2*float64(rate))
	v.filled = now
	if v.tokens < 1 {
		return errRate
	}
	v.tokens--
	return nil
}

// allowed reports whether Allow and Deny admit an address.
func (g *guard) allowed(a netip.Addr) bool {
	a = a.WithZone("") // networks have no zone
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

// begin counts a transfer. It returns an error if the address must not have another one. The result
// quiet reports whether the transfer must not repeat its answer by itself, because the address has
// many unproven transfers.
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

// grant takes up to want bytes from those that the unproven transfers of an address may still send,
// and returns how many it took. The result known reports whether the address has proven itself
// recently and got all the bytes that it wants.
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

// end records that a transfer is over.
func (g *guard) end(from netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if v := g.sources[from.Unmap()]; v != nil {
		v.transfers--
	}
}

// mayRefuse reports whether to send an ERROR to an address that hit a limit.
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

// dropIdle drops addresses without transfers: at least half of the table, because the
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
