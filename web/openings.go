package web

import (
	"net/netip"
	"sync"
)

// DefaultMaxOpen is how many requests of a Handler may have files open at a time
// if it does not say. One that hangs keeps a buffer of 64 to 256 KiB too.
const DefaultMaxOpen = 8192

// openings count the requests that have files open, or are about to. Connections
// are no measure of that, as one of HTTP/2 has many requests at a time.
type openings struct {
	mu       sync.Mutex
	n        int                // mu
	bySource map[netip.Addr]int // mu: none is 0, so there are n at most
}

// forOthers is which part of the requests no source alone can have: enough for the others to
// be served, while all machines behind one translation of addresses (NAT) are one source.
const forOthers = 8

// take counts one more of a source, unless there are as many as may be: most, and
// of one source all but an eighth. Of who is not known, all may be.
func (o *openings) take(from netip.Addr, most int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n >= most {
		return false
	}
	if from.IsValid() {
		if o.bySource[from] >= max(1, most-(most+forOthers-1)/forOthers) {
			return false
		}
		if o.bySource == nil {
			o.bySource = map[netip.Addr]int{}
		}
		o.bySource[from]++
	}
	o.n++
	return true
}

func (o *openings) give(from netip.Addr) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n--
	if !from.IsValid() {
		return
	}
	if o.bySource[from]--; o.bySource[from] == 0 {
		delete(o.bySource, from)
	}
}

// sourceOf returns what counts as one source: an address or, of IPv6, a network of
// 64 bits, all of whose addresses one machine can have.
func sourceOf(a netip.Addr) netip.Addr {
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
