package udp

import (
	"net/netip"
	"testing"
	"time"
)

// A turn of a loop allocates nothing, on any kind of socket.
func TestAllocs(t *testing.T) {
	for name, config := range configs {
		for _, tt := range []struct {
			name     string
			on, peer netip.Addr
		}{
			{"v4", loopback4, loopback4},
			{"v6", loopback6, loopback6},
			{"v4 on both", netip.Addr{}, loopback4},
		} {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				c := listen(t, tt.on, config)
				to := netip.AddrPortFrom(tt.peer, c.LocalAddr().Port())
				in := buffers(4)
				out := []Message{{Peer: to, Local: tt.peer, Data: pattern(3000), Segment: 1000}, {Peer: to, Data: pattern(10)}}
				turn := func() {
					if _, err := c.Write(out); err != nil {
						t.Fatal(err)
					}
					for arrived := 0; arrived < 3010; {
						n, err := c.Read(in, time.Now().Add(patience))
						if err != nil {
							t.Fatal(err)
						}
						for i := range in[:n] {
							for d := range in[i].Datagrams() {
								arrived += len(d)
							}
						}
					}
				}
				if allocs := testing.AllocsPerRun(100, turn); allocs != 0 {
					t.Errorf("%v allocations a turn", allocs)
				}
			})
		}
	}
}
