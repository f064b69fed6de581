package site

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"
)

// Neighbours looks up the hardware addresses of hosts on the same link. Any goroutine may call its
// methods.
type Neighbours interface {
	// MAC returns the hardware address of the host with the address addr, which has no zone. ok is
	// false if the hardware address is not known. err is set if the lookup failed.
	MAC(addr netip.Addr) (mac MAC, ok bool, err error)
}

// These constants bound the copy of the neighbour table.
const (
	// neighbourLife is how long an entry of the copy is used. If another host takes over the
	// address during this time, it is mistaken for the host that had the address before.
	neighbourLife = 5 * time.Second

	// neighbourPause is the minimum time between two readings of the table, so that not every
	// request of an unknown host causes a reading. It is also the longest time that a reading is
	// delayed.
	neighbourPause = 10 * time.Millisecond

	// maxNeighbours is the maximum number of entries that are kept, and of addresses that are
	// remembered because they have no entry. If the table is larger, its other entries are ignored.
	maxNeighbours = 1 << 14
)

// errNeighbours says why there is no neighbour table.
var errNeighbours = fmt.Errorf("haul reads the neighbour table, which has them, only on Linux; use networks or addresses instead: %w", errors.ErrUnsupported)

// KernelNeighbours returns the kernel's neighbour table: the results of ARP and IPv6 neighbour
// discovery. If [NeighboursSupported] is false, it returns an error that wraps
// [errors.ErrUnsupported].
//
// The table is read when it is needed, and kept for five seconds. A host that is not in the table
// is looked up again at its next request, but at most once a second. If two hosts on two links have
// the same address, both of their hardware addresses count as unknown.
func KernelNeighbours() (Neighbours, error) {
	if !NeighboursSupported {
		return nil, errNeighbours
	}
	n := newNeighbours(readNeighbours, time.Now, time.Sleep)
	if err := n.read(); err != nil {
		return nil, err
	}
	return n, nil
}

// missLife is how long an address that was not in the table is not looked up again.
const missLife = time.Second

// A neighbours keeps a recent copy of a neighbour table, and reads the table again when that is
// necessary.
type neighbours struct {
	load  func(max int) (map[netip.Addr]MAC, error)
	now   func() time.Time
	sleep func(time.Duration)

	mu    sync.Mutex
	table map[netip.Addr]MAC // guarded by mu
	begun time.Time          // when the latest reading of the table began; guarded by mu
	// missed holds addresses that were not in the table, with the time of the lookup; guarded by
	// mu.
	missed map[netip.Addr]time.Time
}

func newNeighbours(load func(int) (map[netip.Addr]MAC, error), now func() time.Time, sleep func(time.Duration)) *neighbours {
	return &neighbours{load: load, now: now, sleep: sleep, missed: map[netip.Addr]time.Time{}}
}

// MAC implements Neighbours.
func (n *neighbours) MAC(addr netip.Addr) (MAC, bool, error) {
	asked := n.now()
	n.mu.Lock()
	defer n.mu.Unlock()
	// If another goroutine began to read the table after this call began, that reading is recent
	// enough, whatever its result.
	if n.begun.Before(asked) || n.begun.IsZero() {
		if mac, ok := n.table[addr]; ok && asked.Sub(n.begun) < neighbourLife {
			return mac, true, nil
		}
		if at, ok := n.missed[addr]; ok && asked.Sub(at) < missLife {
			return MAC{}, false, nil
		}
		if err := n.read(); err != nil {
			return MAC{}, false, err
		}
	}
	mac, ok := n.table[addr]
	if !ok {
		n.miss(addr)
	}
	return mac, ok, nil
}

// read waits until neighbourPause has passed since the previous reading, and then reads the table.
func (n *neighbours) read() error {
	if wait := neighbourPause - n.now().Sub(n.begun); wait > 0 {
		n.sleep(min(wait, neighbourPause))
	}
	begun := n.now()
	table, err := n.load(maxNeighbours)
	if err != nil {
		return fmt.Errorf("read the neighbour table: %w", err)
	}
	n.table, n.begun = table, begun
	return nil
}

// miss records that addr is not in the table.
func (n *neighbours) miss(addr netip.Addr) {
	now := n.now()
	if len(n.missed) >= maxNeighbours {
		for a, at := range n.missed {
			if now.Sub(at) >= missLife {
				delete(n.missed, a)
			}
		}
	}
	if len(n.missed) < maxNeighbours {
		n.missed[addr] = now
	}
}
