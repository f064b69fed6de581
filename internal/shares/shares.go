// Package shares divides a bound between sources, so that one source cannot take all of it.
package shares

import (
	"net/netip"
	"sync"
)

// A Source is the key of a share: a user who has logged in or, without a login, an address. The zero
// Source is unknown.
type Source struct {
	User string
	From netip.Addr
}

// SourceOf returns the source of a request: its user or, if that is "", its address. All addresses
// of an IPv6 network of 64 bits are one source, because one machine can have all of them.
func SourceOf(user string, a netip.Addr) Source {
	if user != "" {
		return Source{User: user}
	}
	return Source{From: Network(a)}
}

// Network returns the address that stands for all addresses of a source: an IPv4 address, a
// link-local IPv6 address, or the first address of an IPv6 network of 64 bits.
func Network(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is4() || a.IsLinkLocalUnicast() {
		return a // all hosts of a link have the same first 64 bits (RFC 4291 §2.5.6)
	}
	network, _ := a.Prefix(64) // fails for the zero Addr, and is zero then
	return network.Addr()
}

// A Bound limits how many things of a kind there may be, and divides them between sources. A source
// may have at most Times the number that is still free. So the only source can have Times/(Times+1)
// of all. When other sources have taken all that they may, there are still some for the next one.
type Bound struct {
	Most, Times int
}

// A Table counts how much of one [Bound] each source has taken. The zero Table is ready for use,
// and any goroutine may call its methods.
type Table struct {
	mu sync.Mutex
	n  int            // the total, including unknown sources; guarded by mu
	of map[Source]int // number of each known source that has any; guarded by mu
}

// Take counts n more for a source, and returns true. If this would exceed the bound or the share of
// the source, Take counts nothing and returns false. A source that has nothing yet may take the
// last free ones. For an unknown source, only the total is limited.
func (t *Table) Take(s Source, n int, b Bound) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	free := b.Most - t.n - n
	if free < 0 {
		return false
	}
	if s != (Source{}) {
		had := t.of[s]
		if had > 0 && had+n > b.Times*free {
			return false
		}
		if t.of == nil {
			t.of = map[Source]int{}
		}
		t.of[s] = had + n
	}
	t.n += n
	return true
}

// Count returns the total of all sources.
func (t *Table) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// Give returns n that the source took in one or more calls of Take. If n is 0, it does nothing.
func (t *Table) Give(s Source, n int) {
	if n == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n -= n
	if s == (Source{}) {
		return
	}
	if t.of[s] -= n; t.of[s] == 0 {
		delete(t.of, s)
	}
}
