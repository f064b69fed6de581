//go:build !haul_portable

package tftpclient

import (
	"net/netip"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/poolhooks"
)

// If a socket cannot be opened, the request fails unless another transfer is under way. Otherwise the
// request waits, first in its queue, and the loop tries no more sockets than it has.
func TestPoolSocketFails(t *testing.T) {
	for name, p := range map[string]*Pool{"shared sockets": {Transfers: 4, Sockets: 2}, "own sockets": {Transfers: 4, Sockets: 4}} {
		c := &p.common
		c.poolSettings = p.settings(poolhooks.Hooks{})
		lp, err := newPoolLoop(c, 4, 4)
		if err != nil {
			t.Fatal(err)
		}
		if err := lp.set.Close(); err != nil { // so that Open fails
			t.Fatal(err)
		}
		ended := map[string]error{}
		add := func(file string) {
			c.pending.add()
			lp.inbox.load.Add(1)
			lp.sockets.enqueue(&poolRequest{
				ctx: t.Context(), addr: netip.MustParseAddr("192.0.2.1"), target: Target{Host: "192.0.2.1", Name: file},
				done: func(_ Result, err error) { ended[file] = err },
			})
		}
		add("first")
		add("second")
		lp.begin(time.Now())
		if len(ended) != 2 || ended["first"] == nil || ended["second"] == nil || c.pending.size() != 0 || lp.inbox.load.Load() != 0 {
			t.Errorf("%s: ended are %v, and %d are pending", name, ended, c.pending.size())
		}
		add("third")
		add("fourth")
		lp.active = 1
		lp.begin(time.Now())
		if len(ended) != 2 || lp.slots != 1 || lp.sockets.most != 1 {
			t.Errorf("%s: ended are %v; %d slots, %d sockets", name, ended, lp.slots, lp.sockets.most)
		}
		if q := lp.sockets.dequeue(); q == nil || q.target.Name != "third" {
			t.Errorf("%s: the next request is %+v, want the third", name, q)
		}
	}
}
