// Package admission decides which accepted connections a server serves. It limits their number, in
// all and for each source, and checks their addresses.
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

// The reasons for which a connection is refused. Package tcp documents them.
var (
	ErrDenied     = errors.New("tcp: the address is not allowed")
	ErrSourceFull = errors.New("tcp: the source has as many connections as it may")
	ErrFull       = errors.New("tcp: there are as many connections as there may be")
)

// A Gate admits the connections of one run according to the settings of a server.
type Gate struct {
	conns.Group

	// Places holds an element for each connection, and its capacity is the limit; nil without a
	// limit.
	Places  chan struct{}
	Sources *sources.Table // counts the connections of each source; nil without a limit
	Refuse  bool           // if no place is free: true resets new connections, false lets them wait

	Allow, Deny []netip.Prefix
	Proxies     []netip.Prefix // networks whose connections begin with a PROXY header
	UnixProxies bool           // connections on unix sockets begin with a PROXY header

	Refused func(from net.Addr, why error) // called for each refused connection; may be nil
	OnPlace func()                         // called when a place becomes free; may be nil

	loggedAt atomic.Int64
}

// HasProxies reports whether connections from some sources begin with a PROXY header.
func (g *Gate) HasProxies() bool { return len(g.Proxies) > 0 || g.UnixProxies }

// IsProxy reports whether connections from an address begin with a PROXY header. An invalid address
// means a peer on a unix socket.
func (g *Gate) IsProxy(a netip.Addr) bool {
	if !a.IsValid() {
		return g.UnixProxies
	}
	return inAny(g.Proxies, a)
}

// Admit takes a place for an accepted connection and counts its source, or refuses the connection.
// If there is no place, Admit refuses the connection if Refuse is set, and otherwise waits for a
// place.
func (g *Gate) Admit(c *conns.Conn) bool {
	if !g.takePlace() {
		return g.refuse(c, c.PeerAddr(), ErrFull)
	}
	return g.CountSource(c)
}

// CountSource counts the source of a connection that already has a place. If the source is at its
// limit, CountSource releases the place and refuses the connection. The clients of a proxy are
// counted later, by [Gate.Check].
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

// Check applies Allow and Deny to the client's address. If the connection has a PROXY header,
// `client` is the address in that header, and Check also applies the limit for each source. Without
// a PROXY header, `client` is invalid.
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

// Reject refuses a connection if err comes from Check. Otherwise it does nothing and returns false.
func (g *Gate) Reject(c *conns.Conn, from net.Addr, err error) bool {
	if !errors.Is(err, ErrSourceFull) && !errors.Is(err, ErrDenied) {
		return false
	}
	g.refuse(c, from, err)
	return true
}

// Left releases the place of a connection that has ended. If source is valid, Left also subtracts
// the connection from the count of that source.
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

// takePlace takes a place for a connection. If no place is free, it returns false if Refuse is set,
// and otherwise waits until a place becomes free or Over is closed.
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

// refuse counts and reports a refused connection, and sets an option of the socket so that closing
// it sends a reset. It always returns false, for callers that return its result.
func (g *Gate) refuse(c *conns.Conn, from net.Addr, why error) bool {
	g.Counts.Refused.Add(1)
	_ = c.SetLinger(0)
	if report := g.Refused; report != nil {
		defer g.Caught(func() net.Addr { return from }) // otherwise a panic in Refused could end the accept loop
		report(from, why)
	}
	return false
}

// allows reports whether Allow and Deny accept an address.
func (g *Gate) allows(a netip.Addr) bool {
	return !inAny(g.Deny, a) && (len(g.Allow) == 0 || inAny(g.Allow, a))
}

// inAny reports whether an address is in one of the networks. The zone is ignored.
func inAny(networks []netip.Prefix, a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(a) })
}

// When the process has run out of descriptors or memory, it waits before it accepts again. The wait
// begins with firstDelay and doubles up to maxDelay.
const (
	firstDelay = 5 * time.Millisecond
	maxDelay   = time.Second
)

// Failed counts a failure to accept, and logs at most one a minute. It returns how long to wait
// before the next attempt; delay is the previous wait.
func (g *Gate) Failed(err error, delay time.Duration) time.Duration {
	delay = min(max(firstDelay, 2*delay), maxDelay)
	g.Counts.AcceptErrors.Add(1)
	now := time.Now().UnixNano()
	if last := g.loggedAt.Load(); now-last >= int64(time.Minute) && g.loggedAt.CompareAndSwap(last, now) {
		cmp.Or(g.Log, slog.Default()).Warn("tcp: cannot accept connections for now; are there enough descriptors (ulimit -n)?", "error", err, slog.Duration("delay", delay))
	}
	return delay
}
