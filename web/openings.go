package web

import (
	"net/netip"
	"sync"
)

// DefaultMaxOpen is the default of Handler.MaxOpen. Besides descriptors it bounds memory, because a
// request that hangs keeps a buffer of 64 to 256 KiB.
const DefaultMaxOpen = 8192

// openings counts the requests that have files open, or are about to open them. Counting
// connections would not be enough, because one HTTP/2 connection carries many requests at a time.
type openings struct {
	mu sync.Mutex
	n  int // number of counted requests; guarded by mu
	// bySource holds the number of counted requests of each source. No value is 0, so there are at
	// most n sources. Guarded by mu.
	bySource map[netip.Addr]int
}

// forOthers is the divisor for the share of requests, an eighth, that no single source can have.
// This share is enough to serve other sources. It is not larger, because all machines behind one
// NAT are one source.
const forOthers = 8

// take counts one more request of a source. It returns false if `most` requests are counted
// already, or if the source already has seven eighths of that number. For an unknown source, only
// the total is limited.
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

// sourceOf returns the key of a source: an IPv4 address, or an IPv6 network of 64 bits, all of
// whose addresses one machine can have.
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
