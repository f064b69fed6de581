// Package penalty blocks sources that guess at passwords or hold connections
// open for nothing, before any of it costs more than a look at a table.
//
// A server asks it at these moments of a connection's life:
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
// The model is OpenSSH's PerSourcePenalties, see sshd_config(5): an offence
// costs some seconds, what it cost runs off as time passes, and a source that owes
// [Threshold] or more is refused until all of it has. Three things are added.
// Wrong passwords have an account of their own: a source that owes for them may
// connect, and log in with a key, but no password of its is checked. Each time that
// a source is refused doubles the price of its next offence, up to a limit, and only
// time without one lowers it again. And networks pay a part of what their addresses
// owe, for an attacker seldom has one address.
//
// A success pays nothing back. With one account of their own, an attacker could
// otherwise guess at all the others for ever, with a login in between.
//
// The time is passed in, so that tests need none.
package penalty

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// The defaults of a [Guard]'s fields that are zero.
const (
	DefaultMaxConns               = 4096
	DefaultMaxConnsPerSource      = 256
	DefaultMaxHandshakes          = 100 // as MaxStartups of sshd_config(5) in the end
	DefaultMaxHandshakesPerSource = 10

	// handshakesPerNetwork is how many sources' worth of handshakes the network
	// around a source may have, so that one network can't take all there are.
	handshakesPerNetwork = 4
)

// A Guard decides who may connect. The zero value is one with the defaults. Its
// fields are not to be changed once it is in use; its methods may be called by
// any goroutine.
type Guard struct {
	MaxConns               int // connections at a time; 0 means DefaultMaxConns
	MaxConnsPerSource      int // of one source; 0 means DefaultMaxConnsPerSource
	MaxHandshakes          int // of those, not logged in yet; 0 means DefaultMaxHandshakes
	MaxHandshakesPerSource int // of one source; 0 means DefaultMaxHandshakesPerSource

	// Exempt are the networks that owe nothing whatever they do, and that the
	// limits for one source do not hold for.
	Exempt []netip.Prefix

	mu         sync.Mutex
	conns      int                      // mu
	handshakes int                      // mu
	live       map[netip.Prefix]*live   // mu: the sources that are connected, and their networks
	queue      []*Visit                 // mu: waiting for a place among the handshakes, first come first served
	debts      [kinds][families][]table // mu: narrow to wide
}

// The kinds of debts, and the families of addresses that owe them.
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

// live counts what a source or a network has at the moment.
type live struct {
	conns, handshakes int
	guesses           chan struct{} // has one element for each password that is checked; nil before the first
}

// A source is one address, or for IPv6 one link: a host there has as many
// addresses as it likes. Its network is what one customer of a provider has,
// or a few neighbours. RFC 6177 gives sites /48 to /56.
var (
	bits4 = []int{32, 24}
	bits6 = []int{64, 56, 48}
)

// networkShare is what each wider network pays, as a fraction: this part of
// what the next narrower one does.
const networkShare = 8

// A Cause is why a [Guard] refuses a connection.
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

// A Refusal is the error of [Guard.Admit], and of [Visit.Guess]. It is for the log.
type Refusal struct {
	Cause  Cause
	Source netip.Prefix  // the network that it is about; zero for all of them
	For    time.Duration // how long it will last; 0 if unknown
}

// Error says why, who, and for how long.
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

// A Lockout says that a source is refused from now on.
type Lockout struct {
	Cause  Cause // Penalized or WrongPasswords
	Source netip.Prefix
	For    time.Duration
}

// A Visit is one connection that was admitted.
type Visit struct {
	g        *Guard
	sources  []netip.Prefix // narrow to wide; nil where the address is unknown or exempt
	place    chan struct{}  // closed when it has a place among the handshakes; nil if that was at once
	waiting  bool           // mu of g: for the place
	done     bool           // mu of g: logged in
	offended bool           // mu of g
	ended    bool           // mu of g
}

// Admit counts a connection from an address, or returns a [*Refusal]. An
// address that is not valid, as of a pipe, is counted but owes nothing: all such
// peers look the same.
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

// admit checks all but the limits on handshakes. The caller holds mu.
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

// Guess returns a [*Refusal] if no password of the visitor's is to be checked now,
// as too many were wrong before.
func (v *Visit) Guess(now time.Time) error {
	v.g.mu.Lock()
	defer v.g.mu.Unlock()
	if r := v.g.penalty(now, forPasswords, v.sources); r != nil {
		r.Cause = WrongPasswords
		return r
	}
	return nil
}

// Succeed notes that the visitor has logged in. Their connection counts among
// the handshakes no more.
func (v *Visit) Succeed() {
	v.g.mu.Lock()
	defer v.g.mu.Unlock()
	if !v.done && !v.ended {
		v.done = true
		v.g.count(v.sources, 0, -1)
		v.g.wake()
	}
}

// Fail notes an offence. Any number of them may come from one connection. If a
// source is refused from now on that was not before, Fail says which, and for how
// long.
func (v *Visit) Fail(now time.Time, o Offence) (began *Lockout) {
	v.g.mu.Lock()
	defer v.g.mu.Unlock()
	return v.fail(now, o)
}

// fail is Fail for callers that hold mu.
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
			began = &Lockout{Cause: cause, Source: s, For: left} // the widest counts
		}
		cost /= networkShare
	}
	return began
}

// End notes that the connection is closed. One that never logged in, and has
// not failed either, has wasted a little of our time: [NoLogin]. The result is as
// of [Visit.Fail]. Further calls do nothing.
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

// Live returns how many connections there are, and how many of them have not
// logged in.
func (g *Guard) Live() (conns, handshakes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conns, g.handshakes
}

// penalty returns the refusal of the longest penalty that holds, without its
// cause. The caller holds mu.
func (g *Guard) penalty(now time.Time, kind int, nets []netip.Prefix) (worst *Refusal) {
	tables := g.tables(kind, nets)
	for i, s := range nets {
		if left := tables[i].refused(now, s); left > 0 && (worst == nil || left > worst.For) {
			worst = &Refusal{Source: s, For: left}
		}
	}
	return worst
}

// fullConns returns the refusal of the first limit on connections that is reached.
// The caller holds mu.
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

// fullHandshakes returns the refusal of the first limit on handshakes that is
// reached. The caller holds mu.
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

// count adds to what is live. An entry goes with its last connection, so there
// are three for each connection at most. The caller holds mu.
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

// tables returns what the family of some networks owes. The caller holds mu.
//
// IPv6 has tables of its own, because its networks are cheap: filling them must
// not push out the debts of IPv4 addresses.
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

// sources returns the networks around an address, narrow to wide.
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
			return nil // cannot be: the address is valid and has that many bits
		}
		nets = append(nets, p)
	}
	return nets
}
