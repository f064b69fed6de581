package tftp

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
)

// A trace contains every datagram of both ends, in order, with both addresses.
func TestTrace(t *testing.T) {
	var mu sync.Mutex
	var server, client []string
	note := func(to *[]string) func(time.Time, bool, netip.AddrPort, netip.AddrPort, []byte) {
		return func(at time.Time, sent bool, peer, local netip.AddrPort, b []byte) {
			mu.Lock()
			defer mu.Unlock()
			if !local.Addr().IsValid() || local.Port() == 0 || !peer.IsValid() || at.IsZero() {
				t.Errorf("traced %v and %v at %v", peer, local, at)
			}
			*to = append(*to, fmt.Sprintf("%v %d %d", sent, transfer.OpcodeOf(b), len(b)))
		}
	}
	inWorld(t, func(w *simWorld, s *Config) {
		s.Hooks.Trace, s.Loops = note(&server), 1
		w.net.Glue = true
	}, func(w *simWorld) {
		w.put("image", 2500)
		c := w.client()
		c.Trace = note(&client)
		if _, err := c.Get(context.Background(), target("image"), tftptest.Into(store.Mem(0), "image")); err != nil {
			t.Fatal(err)
		}
		c.Wait()
		synctest.Wait()
		request := len(tftptest.RRQ("image", "blksize", "1024", "tsize", "0", "windowsize", "8"))
		answer := len(tftptest.OACK("blksize", "1024", "tsize", "2500", "windowsize", "8"))
		want := fmt.Sprint([]string{
			fmt.Sprintf("true 1 %d", request), fmt.Sprintf("false 6 %d", answer), "true 4 4",
			"false 3 1028", "false 3 1028", fmt.Sprintf("false 3 %d", 2500-2048+4), "true 4 4",
		})
		if got := fmt.Sprint(client); got != want {
			t.Errorf("client traced %s, want %s", got, want)
		}
		mirror := bytes.NewBufferString(fmt.Sprint(client)).String()
		if got := len(server); got != len(client) {
			t.Errorf("server traced %v, the client %s", server, mirror)
		}
	})
}
