// Package admission decides which accepted connections a server serves: by their number,
// by their source, and by their address.
package admission

import (
	"cmp"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/tcp/internal/conns"
	"github.com/haul-project/haul/tcp/internal/sources"
)

// The reasons to refuse a connection. Package tcp documents them.
var (
	ErrDenied     = errors.New("tcp: the address is not allowed")
	ErrSourceFull = errors.New("tcp: the source has as many connections as it may")
	ErrFull       = errors.New("tcp: there are as many connections as there may be")
)

// A Gate admits the connections of one run according to the settings of a server.
type Gate struct {
	conns.Group

	Places  chan struct{}  // an element for each connection; nil without a limit
	Sources *sources.Table // nil without a limit
	Refuse  bool           // reset connections without a place; otherwise they wait

	Allow, Deny []netip.Prefix
	Proxies     []netip.Prefix // networks whose connections begin with a PROXY header
	UnixProxies bool           // connections on unix sockets begin with one too

	Refused func(from net.Addr, why error) // may be nil
	OnPlace func()                         // called when a place becomes free; may be nil

	loggedAt atomic.Int64
}

// HasProxies reports whether any connection begins with a PROXY header.
func (g *Gate) HasProxies() bool { return len(g.Proxies) > 0 || g.UnixProxies }

// IsProxy reports whether connections of a source begin with a PROXY header. An invalid address is
// a peer on a unix socket.
func (g *Gate) IsProxy(a netip.Addr) bool {
	if !a.IsValid() {
		return g.UnixProxies
	}
	return inAny(g.Proxies, a)
}

// Admit decides whether an accepted connection is served. Without Refuse it waits for a
// place.
func (g *Gate) Admit(c *conns.Conn) bool {
	if !g.takePlace() {
		return g.refuse(c, c.PeerAddr(), ErrFull)
	}
	return g.CountSource(c)
}

// CountSource counts a connection that has a place for its source, or refuses it. The clients of a
// proxy are counted later: see [Gate.Check].
func (g *Gate) CountSource(c *conns.Conn) bool {
	c.Source = netip.Addr{} // clears the source of the previous connection
	if g.Sources != nil {
		from := c.PeerIP()
		if g.IsProxy(from) {
			return true
		}
		if !g.Sources.Enter(from) {
			g.Left(netip.Addr{})
			return g.refuse(c, c.PeerAddr(), ErrSourceFull)
		}
		c.Source = from
	}
	return true
}

// Check applies Allow and Deny, and the limit of connections for the client that a PROXY header
// names. client is invalid if there is no such header.
func (g *Gate) Check(c *conns.Conn, client netip.Addr) error {
	if len(g.Allow)+len(g.Deny) > 0 && !g.allows(cmp.Or(client, c.PeerIP())) {
		return ErrDenied
	}
	if g.Sources != nil && client.IsValid() {
		if !g.Sources.Enter(client) {
			return ErrSourceFull
		}
		c.Source = client
	}
	return nil
}

// Reject refuses a connection if err comes from Check, and reports whether it does.
func (g *Gate) Reject(c *conns.Conn, from net.Addr, err error) bool {
	if !errors.Is(err, ErrSourceFull) && !errors.Is(err, ErrDenied) {
		return false
	}
	g.refuse(c, from, err)
	return true
}

// Left releases what Admit took.
func (g *Gate) Left(source netip.Addr) {
	if g.Places != nil {
		<-g.Places
		if g.OnPlace != nil {
			g.OnPlace()
		}
	}
	if source.IsValid() {
		g.Sources.Leave(source)
	}
}

// takePlace takes one of the places for connections. Without Refuse it waits for one.
func (g *Gate) takePlace() bool {
	if g.Places == nil {
		return true
	}
	select {
	case g.Places <- struct{}{}:
		return true
	default:
	}
	if g.Refuse {
		return false
	}
	select {
	case g.Places <- struct{}{}:
		return true
	case <-g.Over:
		return false
	}
}

// refuse counts and reports a refusal, and makes the connection's close a reset.
func (g *Gate) refuse(c *conns.Conn, from net.Addr, why error) bool {
	g.Counts.Refused.Add(1)
	_ = c.SetLinger(0)
	if report := g.Refused; report != nil {
		defer g.Caught(func() net.Addr { return from }) // a panic would end accepting
		report(from, why)
	}
	return false
}

// allows reports whether Allow and Deny admit an address.
func (g *Gate) allows(a netip.Addr) bool {
	return !inAny(g.Deny, a) && (len(g.Allow) == 0 || inAny(g.Allow, a))
}

// inAny reports whether an address is in one of the networks.
func inAny(networks []netip.Prefix, a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a) })
}

// firstDelay and maxDelay bound the wait before accepting again when the process has run out of
// descriptors or memory.
const (
	firstDelay = 5 * time.Millisecond
	maxDelay   = time.Second
)

// Failed counts a failure to accept, logs one failure a minute, and returns how long to wait, given
// the last wait.
func (g *Gate) Failed(err error, delay time.Duration) time.Duration {
	delay = min(max(firstDelay, 2*delay), maxDelay)
	g.Counts.AcceptErrors.Add(1)
	now := time.Now().UnixNano()
	if last := g.loggedAt.Load(); now-last >= int64(time.Minute) && g.loggedAt.CompareAndSwap(last, now) {
		cmp.Or(g.Log, slog.Default()).Warn("tcp: cannot accept connections for now; are there enough descriptors (ulimit -n)?", "error", err, slog.Duration("delay", delay))
	}
	return delay
}
