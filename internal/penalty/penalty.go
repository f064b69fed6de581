// Package penalty blocks sources that guess passwords, or that open connections without logging in.
// Refusing such a source costs the server only a table lookup.
//
// A server uses it for each connection as follows:
//
//	v, err := guard.Admit(time.Now(), from) // before the first byte is read; or Enter, which waits
//	if err != nil {
//		return // a *Refusal has the reason
//	}
//	defer func() { v.End(time.Now()) }()
//	...
//	end, err := v.BeginGuess(ctx, time.Now) // before each password is checked
//	...
//	v.Fail(time.Now(), penalty.BadLogin) // if it was wrong
//	end()
//	...
//	v.Succeed() // logged in
//
// The model is OpenSSH's PerSourcePenalties, see sshd_config(5): an offence costs some seconds, the
// debt shrinks as time passes, and a source whose debt has reached [Threshold] is refused until it
// owes nothing. This package adds three rules:
//
//   - Debts for wrong passwords are kept separately. A source that is refused because of them may
//     still connect, and log in with a key, but its passwords are not checked.
//   - Each time that a debt reaches the threshold, the cost of further offences doubles, up to a
//     limit. Only time without debt lowers it again.
//   - An offence also costs the networks around the source, though less, because an attacker seldom
//     has only one address.
//
// A successful login does not reduce a debt. Otherwise, attackers with an account of their own could
// guess the passwords of other accounts forever, if they logged in to their own in between.
//
// The caller passes the time, so that tests do not have to wait.
package penalty

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// The defaults for fields of a [Guard] that are zero.
const (
	DefaultMaxConns               = 4096
	DefaultMaxConnsPerSource      = 256
	DefaultMaxHandshakes          = 100 // the final limit of MaxStartups in sshd_config(5)
	DefaultMaxHandshakesPerSource = 10

	// handshakesPerNetwork times MaxHandshakesPerSource is the limit for each network around a
	// source, so that one network cannot use all handshakes.
	handshakesPerNetwork = 4
)

// A Guard decides which sources may connect. The zero value has the default limits. Do not change
// the exported fields once the Guard is in use. Any goroutine may call its methods.
type Guard struct {
	MaxConns          int // maximum number of connections; 0 means DefaultMaxConns
	MaxConnsPerSource int // maximum number of connections of one source; 0 means DefaultMaxConnsPerSource
	// MaxHandshakes is the maximum number of connections that have not logged in yet; 0 means
	// DefaultMaxHandshakes.
	MaxHandshakes int
	// MaxHandshakesPerSource is the maximum number of connections of one source that have not
	// logged in yet; 0 means DefaultMaxHandshakesPerSource.
	MaxHandshakesPerSource int

	// Exempt lists networks whose addresses never owe anything, and to which the limits for one
	// source do not apply.
	Exempt []netip.Prefix

	mu         sync.Mutex
	conns      int                    // number of connections; guarded by mu
	handshakes int                    // number of connections that have not logged in yet; guarded by mu
	live       map[netip.Prefix]*live // counts for each connected source, and for its networks; guarded by mu
	// queue holds the visits that wait to begin their handshakes, longest wait first; guarded by
	// mu.
	queue []*Visit
	debts [kinds][families][]table // one table for each size of network, narrow to wide; guarded by mu
}

// These are the kinds of debts, and the families of addresses that owe them.
const (
	forVisits = iota
	forPasswords
	kinds
)

const (
	ipv4 = iota
	ipv6
	families
)

// live counts the current connections of a source or a network.
type live struct {
	conns, handshakes int
	// guesses has one element for each password of the source that is being checked; nil before the
	// first check.
	guesses chan struct{}
}

// These are the lengths of the prefixes that are counted, the source first and then the networks
// around it. A source is one address, or for IPv6 one /64, because a host there can have any number
// of addresses. The networks are those of one customer of a provider, or of a few neighbours. RFC
// 6177 assigns /48 to /56 to a site.
var (
	bits4 = []int{32, 24}
	bits6 = []int{64, 56, 48}
)

// networkShare is the divisor for the cost of an offence: a source pays the whole cost, and each wider
// network an eighth of what the next narrower one pays.
const networkShare = 8

// A Cause is the reason why a [Guard] refuses a connection.
type Cause string

// The causes.
const (
	Penalized           Cause = "penalties for earlier failures"
	WrongPasswords      Cause = "wrong passwords before"
	TooManyConns        Cause = "too many connections in all"
	TooManyOfSource     Cause = "too many connections of this source"
	TooManyHandshakes   Cause = "too many logins under way in all"
	TooManyHandshakesOf Cause = "too many logins of this source under way"
)

// A Refusal is the error of [Guard.Admit], [Guard.Enter], [Visit.Guess] and [Visit.BeginGuess]. It is
// intended for the log, not for the peer.
type Refusal struct {
	Cause  Cause
	Source netip.Prefix  // the network that is refused; zero means all networks
	For    time.Duration // how long the refusal will last; 0 if unknown
}

// Error returns the cause, the network and the duration.
func (r *Refusal) Error() string {
	s := "connection refused: " + string(r.Cause)
	if r.Cause == WrongPasswords {
		s = "passwords refused: " + string(r.Cause)
	}
	if r.Source.IsValid() {
		s += " (" + r.Source.String() + ")"
	}
	if r.For > 0 {
		s += fmt.Sprintf(", for another %v", r.For.Round(time.Second))
	}
	return s
}

// A Lockout reports that a network is refused from now on.
type Lockout struct {
	Cause Cause // Penalized or WrongPasswords
	// Source is the refused network: a source (an address, or an IPv6 /64), or a wider network that
	// contains it.
	Source netip.Prefix
	For    time.Duration // how long the network is refused
}

// A Visit is one connection that was admitted, or that waits in [Guard.Enter].
type Visit struct {
	g *Guard
	// sources holds the source and the networks around it, narrow to wide; nil if the address is
	// unknown or exempt.
	sources  []netip.Prefix
	place    chan struct{} // closed when the visit may begin its handshake; nil if it did not have to wait
	waiting  bool          // in g.queue, waiting to begin its handshake; guarded by g.mu
	done     bool          // the visitor has logged in; guarded by g.mu
	offended bool          // Fail was called; guarded by g.mu
	ended    bool          // the connection is no longer counted; guarded by g.mu
}

// Admit counts a connection from an address, or returns a [*Refusal]. The caller must call [Visit.End]
// later. A connection from an invalid address, such as that of a pipe, is counted but never adds to a
// debt, because all such peers look the same.
func (g *Guard) Admit(now time.Time, from netip.Addr) (*Visit, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, err := g.admit(now, from)
	if err != nil {
		return nil, err
	}
	if r := g.fullHandshakes(v.sources); r != nil {
		return nil, r
	}
	g.count(v.sources, 1, 1)
	return v, nil
}

// admit checks everything except the limits on handshakes. The caller holds mu.
func (g *Guard) admit(now time.Time, from netip.Addr) (*Visit, error) {
	from = from.Unmap().WithZone("")
	v := &Visit{g: g}
	if !slices.ContainsFunc(g.Exempt, func(n netip.Prefix) bool { return n.Contains(from) }) {
		v.sources = sources(from)
	}
	if r := g.penalty(now, forVisits, v.sources); r != nil {
		r.Cause = Penalized
		return nil, r
	}
	if r := g.fullConns(v.sources); r != nil {
		return nil, r
	}
	return v, nil
}

// Guess returns a [*Refusal] if the visitor's passwords may not be checked now, because too many of
// them were wrong.
func (v *Visit) Guess(now time.Time) error {
	v.g.mu.Lock()
	defer v.g.mu.Unlock()
	if r := v.g.penalty(now, forPasswords, v.sources); r != nil {
		r.Cause = WrongPasswords
		return r
	}
	return nil
}

// Succeed records that the visitor has logged in. The connection no longer counts among the
// handshakes.
func (v *Visit) Succeed() {
	v.g.mu.Lock()
	defer v.g.mu.Unlock()
	if !v.done && !v.ended {
		v.done = true
		v.g.count(v.sources, 0, -1)
		v.g.wake()
	}
}

// Fail records an offence. One connection may commit any number of offences. If a network is refused
// from now on because of the offence, Fail returns a [Lockout], for the widest such network;
// otherwise nil.
func (v *Visit) Fail(now time.Time, o Offence) (began *Lockout) {
	v.g.mu.Lock()
	defer v.g.mu.Unlock()
	return v.fail(now, o)
}

// fail is like Fail, for callers that hold mu.
func (v *Visit) fail(now time.Time, o Offence) (began *Lockout) {
	v.offended = true
	kind, cause, cost := forVisits, Penalized, o.cost()
	if o == BadLogin {
		kind, cause = forPasswords, WrongPasswords
	}
	tables := v.g.tables(kind, v.sources)
	for i, s := range v.sources {
		before := tables[i].refused(now, s)
		tables[i].fail(now, s, cost)
		if left := tables[i].refused(now, s); before == 0 && left > 0 {
			began = &Lockout{Cause: cause, Source: s, For: left} // a wider network replaces a narrower one
		}
		cost /= networkShare
	}
	return began
}

// End records that the connection is closed. If the visitor has not logged in and no offence was
// recorded, End records the offence [NoLogin], because the connection has wasted some of the
// server's time. The result is the same as that of [Visit.Fail]. Further calls do nothing.
func (v *Visit) End(now time.Time) (began *Lockout) {
	v.g.mu.Lock()
	defer v.g.mu.Unlock()
	if v.ended {
		return nil
	}
	v.ended = true
	handshake := 0
	if !v.done {
		handshake = -1
		if !v.offended {
			began = v.fail(now, NoLogin)
		}
	}
	v.g.count(v.sources, -1, handshake)
	v.g.wake()
	return began
}

// Live returns the number of connections, and how many of them have not logged in and do not wait to
// begin their handshakes.
func (g *Guard) Live() (conns, handshakes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conns, g.handshakes
}

// penalty returns a refusal if one of the networks is refused because of its debt, or nil. If several
// networks are refused, it returns the refusal that lasts longest. The caller sets the cause, and
// holds mu.
func (g *Guard) penalty(now time.Time, kind int, nets []netip.Prefix) (worst *Refusal) {
	tables := g.tables(kind, nets)
	for i, s := range nets {
		if left := tables[i].refused(now, s); left > 0 && (worst == nil || left > worst.For) {
			worst = &Refusal{Source: s, For: left}
		}
	}
	return worst
}

// fullConns returns a refusal if the number of connections has reached a limit, or nil. The caller
// holds mu.
func (g *Guard) fullConns(nets []netip.Prefix) *Refusal {
	if g.conns >= cmp.Or(g.MaxConns, DefaultMaxConns) {
		return &Refusal{Cause: TooManyConns}
	}
	if len(nets) > 0 {
		if l := g.live[nets[0]]; l != nil && l.conns >= cmp.Or(g.MaxConnsPerSource, DefaultMaxConnsPerSource) {
			return &Refusal{Cause: TooManyOfSource, Source: nets[0]}
		}
	}
	return nil
}

// fullHandshakes returns a refusal if the number of handshakes has reached a limit, or nil. The
// caller holds mu.
func (g *Guard) fullHandshakes(nets []netip.Prefix) *Refusal {
	if g.handshakes >= cmp.Or(g.MaxHandshakes, DefaultMaxHandshakes) {
		return &Refusal{Cause: TooManyHandshakes}
	}
	most := cmp.Or(g.MaxHandshakesPerSource, DefaultMaxHandshakesPerSource)
	for i, s := range nets {
		if i == 1 {
			most *= handshakesPerNetwork
		}
		if l := g.live[s]; l != nil && l.handshakes >= most {
			return &Refusal{Cause: TooManyHandshakesOf, Source: s}
		}
	}
	return nil
}

// count adds to the numbers of connections and handshakes, in all and for each of the networks. The
// map live has an entry only for a network with connections, so it has at most three for each
// connection. The caller holds mu.
func (g *Guard) count(nets []netip.Prefix, conns, handshakes int) {
	if g.live == nil {
		g.live = map[netip.Prefix]*live{}
	}
	g.conns += conns
	g.handshakes += handshakes
	for _, s := range nets {
		l := g.live[s]
		if l == nil {
			l = &live{}
			g.live[s] = l
		}
		l.conns += conns
		l.handshakes += handshakes
		if l.conns == 0 {
			delete(g.live, s)
		}
	}
}

// tables returns the tables of debts for the address family of some networks. The caller holds mu.
//
// Each family has its own tables, because it is easy to get many IPv6 networks: an attacker who
// fills the tables for IPv6 must not make the Guard drop the debts of IPv4 addresses.
func (g *Guard) tables(kind int, nets []netip.Prefix) []table {
	family, widths := ipv6, len(bits6)
	if len(nets) > 0 && nets[0].Addr().Is4() {
		family, widths = ipv4, len(bits4)
	}
	if g.debts[kind][family] == nil {
		g.debts[kind][family] = make([]table, widths)
	}
	return g.debts[kind][family]
}

// sources returns the source that an address belongs to, and the networks around it, narrow to wide.
func sources(a netip.Addr) (nets []netip.Prefix) {
	if !a.IsValid() {
		return nil
	}
	bits := bits6
	if a.Is4() {
		bits = bits4
	}
	nets = make([]netip.Prefix, 0, len(bits))
	for _, b := range bits {
		p, err := a.Prefix(b)
		if err != nil {
			return nil // impossible: the address is valid, and has at least as many bits as the prefix
		}
		nets = append(nets, p)
	}
	return nets
}
