package site

import (
	"errors"
	"maps"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// A clock stands still except for sleeping.
type clock struct {
	mu  sync.Mutex
	at  time.Time
	nap time.Duration // total time slept
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) sleep(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	c.nap += d
}

func TestNeighbourCache(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	macA, macB := MAC{1}, MAC{2}
	kernel := map[netip.Addr]MAC{a: macA}
	var fail error
	reads := 0
	load := func(most int) (map[netip.Addr]MAC, error) {
		reads++
		if most != maxNeighbours {
			t.Errorf("room for %d", most)
		}
		return maps.Clone(kernel), fail
	}
	c := &clock{at: time.Unix(1000, 0)}
	n := newNeighbours(load, c.now, c.sleep)
	check := func(why string, addr netip.Addr, want MAC, wantReads int) {
		t.Helper()
		mac, ok, err := n.MAC(addr)
		if err != nil || mac != want || ok != (want != MAC{}) || reads != wantReads {
			t.Errorf("%s: %v, %v, %v after %d readings; want %v after %d", why, mac, ok, err, reads, want, wantReads)
		}
	}
	check("the first question reads the table", a, macA, 1)
	c.sleep(neighbourLife - 1)
	kernel[a] = macB
	check("an entry is believed for a while", a, macA, 1)
	c.sleep(1)
	check("and no longer", a, macB, 2)
	check("a stranger is looked for", b, MAC{}, 2) // the clock stands still: that reading answers it
	c.sleep(1)
	check("and believed to be one", b, MAC{}, 2)
	kernel[b] = macB
	c.sleep(missLife)
	check("for less long", b, macB, 3)
	if c.nap != neighbourLife+missLife+1 {
		t.Errorf("slept for %v", c.nap)
	}

	// Requests from unknown hosts cannot cause readings without a pause.
	c.nap = 0
	for i := range 10 {
		c.sleep(1)
		check("a stranger", netip.AddrFrom4([4]byte{10, 1, 0, byte(i)}), MAC{}, 4+i)
	}
	if c.nap != 10*neighbourPause {
		t.Errorf("ten readings took %v", c.nap)
	}

	fail = errors.New("no netlink")
	c.sleep(neighbourLife)
	if _, ok, err := n.MAC(a); ok || !errors.Is(err, fail) {
		t.Errorf("%v, %v", ok, err)
	}
	fail = nil
	check("after a failure", a, macB, 15)
}

func TestNeighbourCacheIsBounded(t *testing.T) {
	c := &clock{at: time.Unix(1000, 0)}
	n := newNeighbours(func(int) (map[netip.Addr]MAC, error) { return nil, nil }, c.now, c.sleep)
	for i := range maxNeighbours + 100 {
		n.miss(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	if len(n.missed) != maxNeighbours {
		t.Errorf("%d strangers kept", len(n.missed))
	}
	c.sleep(missLife)
	n.miss(netip.MustParseAddr("10.0.0.1"))
	if len(n.missed) != 1 {
		t.Errorf("%d strangers kept after a while", len(n.missed))
	}
}

func TestNeighbourCacheAtOnce(t *testing.T) {
	a := netip.MustParseAddr("10.0.0.1")
	n := newNeighbours(func(int) (map[netip.Addr]MAC, error) { return map[netip.Addr]MAC{a: {1}}, nil }, time.Now, time.Sleep)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, ok, err := n.MAC(a); !ok || err != nil {
				t.Error(ok, err)
			}
			if _, ok, err := n.MAC(netip.AddrFrom4([4]byte{10, 2, 0, byte(i)})); ok || err != nil {
				t.Error(ok, err)
			}
		})
	}
	wg.Wait()
}

func TestKernelNeighbours(t *testing.T) {
	n, err := KernelNeighbours()
	if !NeighboursSupported {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if mac, ok, err := n.MAC(netip.MustParseAddr("127.0.0.1")); ok || err != nil {
		t.Errorf("the loopback has the hardware address %v, %v", mac, err)
	}
}
