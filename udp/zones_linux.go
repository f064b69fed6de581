//go:build linux && !haul_portable

package udp

import (
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// zones maps the names of interfaces to their indexes and back, for link-local addresses. Package
// net has such a table too, but does not export it.
var zones zoneTable

// A zoneTable caches the host's interfaces. Asking the kernel takes several system calls, which is
// too slow to do for each packet.
type zoneTable struct {
	mu      sync.Mutex
	read    time.Time
	names   map[uint32]string
	indexes map[string]uint32
	kept    []netip.Addr // one address for each zone, because netip forgets the names of unused zones
}

const zoneLife = time.Minute // how long a renamed interface may go unnoticed

// name returns the name of an interface, as in "fe80::1%eth0".
func (t *zoneTable) name(index uint32) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refresh()
	if name, ok := t.names[index]; ok {
		return name
	}
	return strconv.FormatUint(uint64(index), 10)
}

// index returns the index of the named interface, or zero if no interface has this name. A name that is a number is
// the index itself.
func (t *zoneTable) index(name string) uint32 {
	if name == "" {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refresh()
	if index, ok := t.indexes[name]; ok {
		return index
	}
	index, err := strconv.ParseUint(name, 10, 32)
	if err != nil {
		return 0 // the kernel then returns EINVAL
	}
	return uint32(index)
}

// refresh reads the host's interfaces again, unless it last did so within zoneLife.
func (t *zoneTable) refresh() {
	if !t.read.IsZero() && time.Since(t.read) < zoneLife {
		return
	}
	t.read = time.Now()
	interfaces, err := net.Interfaces()
	if err != nil {
		return // keep using the known interfaces until the next refresh
	}
	t.names = make(map[uint32]string, len(interfaces))
	t.indexes = make(map[string]uint32, len(interfaces))
	t.kept = t.kept[:0]
	for _, i := range interfaces {
		t.names[uint32(i.Index)] = i.Name
		t.indexes[i.Name] = uint32(i.Index)
		t.kept = append(t.kept, netip.IPv6Unspecified().WithZone(i.Name))
	}
}
