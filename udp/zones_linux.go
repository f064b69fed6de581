//go:build linux && !haul_portable

package udp

import (
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"
)

// zones converts between the names and the indexes of interfaces, for link-local addresses. Package
// net has such a table too, but does not export it.
var zones zoneTable

// A zoneTable caches the names and indexes of the host's interfaces. Asking the kernel takes
// several system calls, which is too slow for each packet.
type zoneTable struct {
	mu      sync.Mutex
	read    time.Time
	names   map[uint32]string
	indexes map[string]uint32
	// kept keeps one address for each zone in memory, because netip forgets the names of zones that
	// no address uses.
	kept []netip.Addr
}

const zoneLife = time.Minute // how long the table may be out of date after an interface was renamed

// name returns the name of the interface with the given index, such as "eth0". If no interface has
// that index, name returns the index in decimal.
func (t *zoneTable) name(index uint32) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refresh()
	if name, ok := t.names[index]; ok {
		return name
	}
	return strconv.FormatUint(uint64(index), 10)
}

// index returns the index of the interface with the given name. If no interface has that name,
// index takes a number as the index itself, and returns 0 for any other name.
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
		return 0 // with index 0, the kernel returns EINVAL for the address
	}
	return uint32(index)
}

// refresh asks for the host's interfaces again, unless it did so within the last zoneLife.
func (t *zoneTable) refresh() {
	if !t.read.IsZero() && time.Since(t.read) < zoneLife {
		return
	}
	t.read = time.Now()
	interfaces, err := net.Interfaces()
	if err != nil {
		return // until the next refresh, the interfaces known so far are used
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
