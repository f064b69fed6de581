package tftp

import (
	"math"
	"net/netip"
	"sync"
	"time"

	"github.com/haul-project/haul/tftp/internal/packetio"
)

// The bounds for an address before it has shown that it exists: the address of
// a request may be forged, and then a third party gets everything we send. A
// transfer is proven by the acknowledgement of data, or by data.
const (
	// maxResending is how many transfers at the same time have their first DATA
	// sent again by the timer. Further ones have it sent again only when they
	// repeat their request.
	maxResending = 128

	// maxUnproven is how many bytes of data they may send, together, before an
	// address has proven itself. It holds the window of 64 blocks that boot loaders
	// ask for.
	maxUnproven = 96 << 10

	// maxUnprovenKnown is the same for an address that has proven itself within
	// knownFor.
	maxUnprovenKnown = 64 << 20
	knownFor         = time.Minute

	// maxRefused is how many requests a second are refused with an ERROR because
	// of a limit. Beyond that they are counted only.
	maxRefused = 10

	// minSources is how many addresses are kept in mind, or twice as many as
	// there may be transfers, displaced ones included, if that is more. Each
	// takes some 200 bytes.
	minSources = 1 << 16
)

// A guard counts the requests and transfers of each address. It is used once for a request
// and once or twice more for a transfer, never for a packet.
type guard struct {
	allow, deny []netip.Prefix
	perClient   int
	maxSources  int
	rate        int // requests a second
	rateOfLocal int // the same for loopback, where no address is forged

	mu      sync.Mutex
	sources map[netip.Addr]*source // mu
}

// A source is an address that has asked for something.
type source struct {
	transfers int
	unproven  int
	credit    int64     // bytes that those unproven may send
	proven    time.Time // when one was proven last

	tokens float64 // requests that it may make at once, as of filled
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

// request counts a request. It returns an error if the request must be turned away.
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
	// A token bucket that holds two seconds' requests. Loops may be a little
	// behind each other; a step of the clock costs a second at most.
	elapsed := max(now.Sub(v.filled), -time.Second)
	v.tokens = min(v.tokens+elapsed.Seconds()*float64(rate), 2*float64(rate))
	v.filled = now
	if v.tokens < 1 {
		return errRate
	}
	v.tokens--
	return nil
}

// allowed reports whether the networks allowed and denied admit an address.
func (g *guard) allowed(a netip.Addr) bool {
	a = a.WithZone("") // no network has one
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

// begin counts a transfer. It returns an error if the address must not have another. quiet
// reports whether the transfer should repeat nothing by itself, since the address has
// many that are unproven.
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

// grant takes up to want bytes from those that the unproven transfers of an address
// may send, and returns their number. known reports whether the address has proven itself and got
// all of them.
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

// release takes an unproven transfer off the count, with the bytes that it was granted, as
// it is proven or over.
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

// end notes that a transfer is over.
func (g *guard) end(from netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if v := g.sources[from.Unmap()]; v != nil {
		v.transfers--
	}
}

// mayRefuse reports whether to answer an address that hit a limit.
func (g *guard) mayRefuse(now time.Time, to netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.source(now, to)
	return v.refused.Allow(now, maxRefused)
}

// source returns what is known of an address. The caller holds mu.
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

// dropIdle drops those that have no transfers: half of the table at the least,
// as there are no more transfers than that. The caller holds mu.
func (g *guard) dropIdle() {
	for a, v := range g.sources {
		if v.transfers == 0 {
			delete(g.sources, a)
		}
	}
}

// idle reports whether no transfer is counted, for tests.
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
