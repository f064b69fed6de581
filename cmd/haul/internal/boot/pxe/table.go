package pxe

import (
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
)

// These are limits of a [Server].
const (
	// MaxMachines is the largest number of machines that are remembered. If there are more, the
	// server forgets the machine that has been silent for the longest time.
	MaxMachines = 65536

	// MaxRate is the largest number of answers to one machine per second.
	MaxRate = 8

	// MaxTotalRate is the largest number of answers to all machines together per second.
	MaxTotalRate = 5000
)

// A window counts events within one second, which begins with the first event.
type window struct {
	begin time.Time
	n     int
}

// full reports whether the limit for the current second is reached.
func (w *window) full(now time.Time, limit int) bool { return w.holds(now) && w.n >= limit }

// count counts an event.
func (w *window) count(now time.Time) {
	if !w.holds(now) {
		*w = window{begin: now}
	}
	w.n++
}

// holds reports whether the time `now` is within the second of w. It returns false if the clock was
// set back; then a new second begins.
func (w *window) holds(now time.Time) bool {
	since := now.Sub(w.begin)
	return 0 <= since && since < time.Second
}

// A machine holds the information that is remembered about one machine.
type machine struct {
	mac    dhcp.MAC
	addr   dhcp.Addr // address that the machine uses; zero if it is not known
	client Client
	file   string
	form   Form
	forms  formMemory
	chain  chainMemory
	boot   boot
	shown  Stage // stage that was last returned to the program: see [Server.Changes]
	rate   window

	newer, older int32 // neighbours in the order of the latest use; -1 at the ends
}

// A table holds the remembered machines, by MAC and by address, and in the order of their latest
// use.
type table struct {
	limit          int
	machines       []machine
	byMAC          map[dhcp.MAC]int32
	byAddr         map[dhcp.Addr]int32
	newest, oldest int32
}

func newTable(limit int) table {
	return table{limit: limit, byMAC: map[dhcp.MAC]int32{}, byAddr: map[dhcp.Addr]int32{}, newest: -1, oldest: -1}
}

// find returns the machine with a MAC, or nil if it is not remembered.
func (t *table) find(mac dhcp.MAC) *machine {
	if i, ok := t.byMAC[mac]; ok {
		return &t.machines[i]
	}
	return nil
}

// at returns the machine that uses an address, or nil.
func (t *table) at(addr dhcp.Addr) *machine {
	if i, ok := t.byAddr[addr]; ok {
		return &t.machines[i]
	}
	return nil
}

// use returns the machine with a MAC, adds it if necessary, and makes it the newest. The pointer is
// valid until the next call of use.
func (t *table) use(mac dhcp.MAC) *machine {
	i, ok := t.byMAC[mac]
	switch {
	case ok:
		t.unlink(i)
	case len(t.machines) < t.limit:
		i = int32(len(t.machines))
		t.machines = append(t.machines, machine{mac: mac})
		t.byMAC[mac] = i
	default:
		i = t.oldest
		t.unlink(i)
		t.setAddr(i, dhcp.Addr{})
		delete(t.byMAC, t.machines[i].mac)
		t.machines[i] = machine{mac: mac}
		t.byMAC[mac] = i
	}
	m := &t.machines[i]
	m.newer, m.older = -1, t.newest
	if t.newest >= 0 {
		t.machines[t.newest].newer = i
	} else {
		t.oldest = i
	}
	t.newest = i
	return m
}

func (t *table) unlink(i int32) {
	m := &t.machines[i]
	if m.newer >= 0 {
		t.machines[m.newer].older = m.older
	} else {
		t.newest = m.older
	}
	if m.older >= 0 {
		t.machines[m.older].newer = m.newer
	} else {
		t.oldest = m.newer
	}
}

// setAddr records that machine i uses an address, and that no other machine uses it any more.
func (t *table) setAddr(i int32, addr dhcp.Addr) {
	m := &t.machines[i]
	if m.addr == addr {
		return
	}
	delete(t.byAddr, m.addr)
	if j, ok := t.byAddr[addr]; ok {
		t.machines[j].addr = dhcp.Addr{}
	}
	if m.addr = addr; addr != (dhcp.Addr{}) {
		t.byAddr[addr] = i
	}
}

// leased records the address that a machine requests from the DHCP server.
func (t *table) leased(mac dhcp.MAC, addr dhcp.Addr) {
	if i, ok := t.byMAC[mac]; ok && addr.Unicast() {
		t.setAddr(i, addr)
	}
}
