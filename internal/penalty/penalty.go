// Package penalty keeps those out who guess at passwords or hold connections
// open for nothing, before any of it costs more than a look at a table.
//
// A server asks it at three moments of a connection's life:
//
//	v, err := guard.Admit(time.Now(), from) // before the first byte is read
//	if err != nil {
//		return // a *Refusal says why; close, and say nothing
//	}
//	defer func() { v.End(time.Now()) }()
//	...
//	v.Fail(time.Now(), penalty.BadLogin) // for each password that was wrong
//	...
//	v.Succeed() // logged in
//
// The model is OpenSSH's PerSourcePenalties, see sshd_config(5): an offence
// costs some seconds, what it cost runs off as time passes, and who owes
// [Threshold] or more is refused until all of it has. Two things are added.
// Each time that somebody is refused doubles the price of his next offence, up
// to a limit, and only time without one lowers it again. And networks pay a
// part of what their addresses owe, for an attacker seldom has one address.
//
// A success pays nothing back. Whoever has one account could otherwise guess
// at all the others for ever, with a login of his own in between.
//
// The time is passed in, so that tests need none.
package penalty

import (
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// What a [Guard] allows where its fields are zero.
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

	// Exempt are the networks that owe nothing whatever they do. The other
	// limits hold for them too.
	Exempt []netip.Prefix

	mu         sync.Mutex
	conns      int                    // mu
	handshakes int                    // mu
	live       map[netip.Prefix]*live // mu: sources and their networks, by who is connected now
	debts4     []table                // mu: narrow to wide
	debts6     []table                // mu: the same
}

// live counts what a source or a network has at the moment.
type live struct{ conns, handshakes int }

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
	TooManyConns        Cause = "too many connections in all"
	TooManyOfSource     Cause = "too many connections of this source"
	TooManyHandshakes   Cause = "too many logins under way in all"
	TooManyHandshakesOf Cause = "too many logins of this source under way"
)

// A Refusal is the error of [Guard.Admit]. It is for the log: whoever is
// refused need not learn why.
type Refusal struct {
	Cause  Cause
	Source netip.Prefix  // the network that it is about; zero for all of them
	For    time.Duration // how long it will last; 0 where nobody can know
}

// Error says why, who, and for how long.
func (r *Refusal) Error() string {
	s := "connection refused: " + string(r.Cause)
	if r.Source.IsValid() {
		s += " (" + r.Source.String() + ")"
	}
	if r.For > 0 {
		s += fmt.Sprintf(", for another %v", r.For.Round(time.Second))
	}
	return s
}

// A Visit is one connection that was admitted.
type Visit struct {
	g        *Guard
	from     netip.Addr
	sources  []netip.Prefix // narrow to wide; nil where the address is unknown
	exempt   bool
	done     bool // mu of g: logged in
	offended bool // mu of g
	ended    bool // mu of g
}

// Admit counts a connection from an address, or returns a [*Refusal]. An
// address that is not valid, as of a pipe, is counted but owes nothing: nobody
// could tell one from another.
func (g *Guard) Admit(now time.Time, from netip.Addr) (*Visit, error) {
	from = from.Unmap().WithZone("")
	v := &Visit{g: g, from: from, sources: sources(from), exempt: !from.IsValid() || inAny(g.Exempt, from)}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !v.exempt {
		if r := g.penalty(now, v.sources); r != nil {
			return nil, r
		}
	}
	if r := g.full(v.sources); r != nil {
		return nil, r
	}
	g.count(v.sources, 1, 1)
	return v, nil
}

// Succeed notes that the visitor has logged in. His connection counts among
// the handshakes no more.
func (v *Visit) Succeed() {
	v.g.mu.Lock()
	defer v.g.mu.Unlock()
	if !v.done && !v.ended {
		v.done = true
		v.g.count(v.sources, 0, -1)
	}
}

// Fail notes an offence. Any number of them may come from one connection.
func (v *Visit) Fail(now time.Time, o Offence) {
	v.g.mu.Lock()
	defer v.g.mu.Unlock()
	v.fail(now, o)
}

// fail is Fail for callers that hold mu.
func (v *Visit) fail(now time.Time, o Offence) {
	v.offended = true
	if v.exempt {
		return
	}
	cost := o.cost()
	tables := v.g.tables(v.from)
	for i, s := range v.sources {
		tables[i].fail(now, s, cost)
		cost /= networkShare
	}
}

// End notes that the connection is closed. One that never logged in, and has
// not failed either, has wasted a little of our time: [NoLogin]. Further calls
// do nothing.
func (v *Visit) End(now time.Time) {
	v.g.mu.Lock()
	defer v.g.mu.Unlock()
	if v.ended {
		return
	}
	v.ended = true
	handshake := 0
	if !v.done {
		handshake = -1
		if !v.offended {
			v.fail(now, NoLogin)
		}
	}
	v.g.count(v.sources, -1, handshake)
}

// Live returns how many connections there are, and how many of them have not
// logged in.
func (g *Guard) Live() (conns, handshakes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conns, g.handshakes
}

// penalty returns the refusal of the longest penalty that holds. The caller
// holds mu.
func (g *Guard) penalty(now time.Time, nets []netip.Prefix) (worst *Refusal) {
	if len(nets) == 0 {
		return nil
	}
	tables := g.tables(nets[0].Addr())
	for i, s := range nets {
		if left := tables[i].refused(now, s); left > 0 && (worst == nil || left > worst.For) {
			worst = &Refusal{Cause: Penalized, Source: s, For: left}
		}
	}
	return worst
}

// full returns the refusal of the first limit that is reached. The caller
// holds mu.
func (g *Guard) full(nets []netip.Prefix) *Refusal {
	switch {
	case g.conns >= or(g.MaxConns, DefaultMaxConns):
		return &Refusal{Cause: TooManyConns}
	case g.handshakes >= or(g.MaxHandshakes, DefaultMaxHandshakes):
		return &Refusal{Cause: TooManyHandshakes}
	}
	for i, s := range nets {
		l := g.live[s]
		if l == nil {
			continue
		}
		most := or(g.MaxHandshakesPerSource, DefaultMaxHandshakesPerSource)
		if i > 0 {
			most *= handshakesPerNetwork
		}
		switch {
		case i == 0 && l.conns >= or(g.MaxConnsPerSource, DefaultMaxConnsPerSource):
			return &Refusal{Cause: TooManyOfSource, Source: s}
		case l.handshakes >= most:
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

// tables returns what the family of an address owes. The caller holds mu.
//
// IPv6 has tables of its own, because its networks are cheap: filling them must
// not help anybody to be forgotten as an IPv4 address.
func (g *Guard) tables(a netip.Addr) []table {
	if g.debts4 == nil {
		g.debts4, g.debts6 = make([]table, len(bits4)), make([]table, len(bits6))
	}
	if a.Is4() {
		return g.debts4
	}
	return g.debts6
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

func inAny(nets []netip.Prefix, a netip.Addr) bool {
	for _, n := range nets {
		if n.Contains(a) {
			return true
		}
	}
	return false
}

func or(n, or int) int {
	if n == 0 {
		return or
	}
	return n
}
