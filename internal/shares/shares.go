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

// Network returns the address that stands for all addresses of a source: an IPv4 address, or the
// first address of an IPv6 network of 64 bits.
func Network(a netip.Addr) netip.Addr {
	a = a.Unmap()
	bits := 64
	if a.Is4() {
		bits = 32
	}
	net, err := a.Prefix(bits)
	if err != nil {
		return netip.Addr{}
	}
	return net.Addr()
}

// A Bound says how many of something there may be, and how they are divided. One source may have
// Times as many as are still free. A source that is alone can have Times/(Times+1) of all. If some
// sources have as many as they can get, the next one still finds some.
type Bound struct {
	Most, Times int
}

// A Table counts what the sources have of one [Bound]. The zero Table is ready for use, and any
// goroutine may call its methods.
type Table struct {
	mu sync.Mutex
	n  int            // number of all that are counted; guarded by mu
	of map[Source]int // number of each known source that has any; guarded by mu
}

// Take counts n more of a source, and returns true. If there would be too many in all, or too many of
// this source, it counts nothing and returns false. A source that has nothing yet may take the
// last ones that are free. For an unknown source, only the number of all is limited.
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

// Count returns how many are counted of all sources.
func (t *Table) Count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// Give undoes calls of Take with that source and n in all. If n is 0, it does nothing.
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
