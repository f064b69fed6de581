package protocol

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// These tests try all small worlds: a small transfer must complete for any faults of its first
// datagrams, within the budget of world.run.

const (
	exhaustReach  = 20 // number of first datagrams among which exhaustFaults are placed anywhere
	exhaustFaults = 2
)

var exhaustDepth = flag.Int("depth", 5, "datagrams for which TestEveryBeginning tries every combination")

// smallWorlds calls visit for each kind of small world, with a function that makes one.
func smallWorlds(visit func(name string, fresh func() *world)) {
	for _, kind := range []string{"octet", "netascii", "no options", "old server"} {
		for window := 1; window <= 3; window++ {
			if window > 1 && kind == "no options" || window == 1 && kind == "netascii" || window == 2 && kind == "old server" {
				continue // this world is the same as another one
			}
			for _, client := range []bool{false, true} {
				for blocks := int64(0); blocks <= 4; blocks++ {
					// The file ends in an empty block after whole ones, or in a short block.
					for _, short := range []int64{0, 3} {
						if blocks == 0 && short > 0 {
							continue
						}
						fresh := func() *world {
							w := &world{client: client, f: faults{delay: time.Millisecond}}
							w.req = transfer.Request{Name: "f", Offer: transfer.Options{BlockSize: 8, Window: window, HasSize: true}}
							block := int64(8)
							switch kind {
							case "netascii":
								w.req.Mode = transfer.Netascii
							case "no options":
								w.req.Offer, block = transfer.Options{}, transfer.DefaultBlockSize
							case "old server":
								w.oldServer, block = true, transfer.DefaultBlockSize
							}
							w.size = blocks*block - short
							w.dropNth = map[int]action{}
							return w
						}
						visit(fmt.Sprintf("%s, window %d, client sends %v, %d blocks less %d bytes", kind, window, client, blocks, short), fresh)
					}
				}
			}
		}
	}
}

// runWith runs a small world in which the nth datagram has the fate fate[n-1].
func runWith(t *testing.T, name string, fresh func() *world, fate map[int]action) *world {
	w := fresh()
	w.dropNth = fate
	w.run()
	if allRequestsLost(fate) {
		_, sErr := w.s.Done()
		_, rErr := w.r.Done()
		if w.nth != maxRequests || !errors.Is(cmp.Or(sErr, rErr), transfer.ErrSilent) {
			t.Errorf("%s, all requests lost: %d datagrams, sender %v, receiver %v", name, w.nth, sErr, rErr)
		}
		return w
	}
	if w.problem != "" {
		t.Errorf("%s, with %v: %s", name, fate, w.problem)
	}
	return w
}

// allRequestsLost reports whether none of a client's datagrams arrives.
func allRequestsLost(fate map[int]action) bool {
	for n := 1; n <= maxRequests; n++ {
		if fate[n] != drop {
			return false
		}
	}
	return true
}

func (a action) String() string {
	return [...]string{deliver: "deliver", drop: "drop", duplicate: "duplicate", late: "late"}[a]
}

// TestEveryBeginning tries every combination of fates of the first datagrams.
func TestEveryBeginning(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	worlds := 0
	smallWorlds(func(name string, fresh func() *world) {
		if t.Failed() {
			return
		}
		fates := make([]action, *exhaustDepth)
		for {
			fate := map[int]action{}
			for i, a := range fates {
				if a != deliver {
					fate[i+1] = a
				}
			}
			w := runWith(t, name, fresh, fate)
			worlds++
			// Proceed to the next combination of fates of the datagrams that were sent.
			i := min(w.nth, len(fates)) - 1
			for i >= 0 && fates[i] == late {
				fates[i] = deliver
				i--
			}
			if i < 0 || t.Failed() {
				return
			}
			fates[i]++
			clear(fates[i+1:])
		}
	})
	t.Logf("%d worlds", worlds)
}

// TestFewFaultsAnywhere tries every way to place a few faults in a whole transfer, including its
// end.
func TestFewFaultsAnywhere(t *testing.T) {
	worlds := 0
	smallWorlds(func(name string, fresh func() *world) {
		var place func(from, left int, fate map[int]action)
		place = func(from, left int, fate map[int]action) {
			if t.Failed() {
				return
			}
			sent := runWith(t, name, fresh, fate).nth
			worlds++
			if left == 0 {
				return
			}
			for n := from; n <= min(sent, exhaustReach); n++ {
				for a := drop; a <= late; a++ {
					fate[n] = a
					place(n+1, left-1, fate)
				}
				delete(fate, n)
			}
		}
		place(1, exhaustFaults, map[int]action{})
	})
	t.Logf("%d worlds", worlds)
}
