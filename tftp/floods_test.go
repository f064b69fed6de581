package tftp

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/internal/tftptest"
)

// floodSize is the number of datagrams in a flood.
const floodSize = 20_000

// maxFloodHeap is how much the heap may grow in a flood, in bytes.
const maxFloodHeap = 64 << 20

// The server handles a flood in a short time and counts it. It sends few answers, uses bounded
// resources, and continues earlier transfers.
func TestFloods(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	watchHeap(t)
	began := time.Now()
	loop := func(tb *testbed) net.Addr { return net.UDPAddrFromAddrPort(tb.good.reader.To) }
	port := func(tb *testbed) net.Addr { return net.UDPAddrFromAddrPort(tb.server.Addr()) }
	tests := []struct {
		name      string
		configure func(*Config)
		to        func(*testbed) net.Addr
		packet    func(i int) []byte
		ports     int // number of source ports
		// live is how many transfers the flood may have at a time, including removed ones that are
		// not closed yet.
		live    int64
		begun   int64 // transfers that it may begin per second, in addition to those in live
		out     int64 // datagrams that it may cause, in addition to those allowed per second
		aSecond int64
		counted func(Counters) int64
	}{
		{
			"requests beyond the rate", func(s *Config) { s.Rate = 100 }, port,
			func(i int) []byte { return tftptest.RRQ(fmt.Sprint("image", i%2)) }, floodSize,
			200, 100, 4 * 200, 10 + 4*100, func(c Counters) int64 { return c.TurnedAway[Rate] },
		},
		{
			"requests beyond the number of transfers", func(s *Config) { s.MaxTransfers = 500 }, port,
			func(i int) []byte { return tftptest.RRQ(fmt.Sprint("image", i%2)) }, floodSize,
			2 * 500, 0, 4 * 500, 10 + 4*500, func(c Counters) int64 { return c.TurnedAway[Busy] },
		},
		{
			"writes beyond the number of an address", func(s *Config) { s.MaxPerClient = 100 }, port,
			func(i int) []byte { return tftptest.WRQ(fmt.Sprint("new", i%50)) }, floodSize,
			100, 0, 4 * 100, 10, func(c Counters) int64 { return c.TurnedAway[PerClient] },
		},
		{
			"requests from one port", func(s *Config) { s.MaxTransfers = 1000 }, port,
			func(i int) []byte { return tftptest.RRQ(fmt.Sprint("missing", i)) }, 1,
			2 * 1000, 0, floodSize, 0, func(c Counters) int64 { return c.PacketsIn },
		},
		{
			"nonsense", nil, port,
			func(int) []byte { return []byte{0, 99, 1, 2, 3} }, floodSize,
			0, 0, maxErrors, maxErrors, func(c Counters) int64 { return c.TurnedAway[Malformed] },
		},
		{
			"strays", nil, loop,
			func(i int) []byte {
				return [][]byte{tftptest.ACK(i), tftptest.Data(i, nil), {0, 99}, tftptest.OACK()}[i%4]
			}, floodSize,
			0, 0, maxErrors, maxErrors, func(c Counters) int64 { return c.Strays },
		},
		{
			"strays from one port", nil, loop,
			func(i int) []byte { return tftptest.Data(i, make([]byte, 512)) }, 1,
			0, 0, maxErrors, maxErrors, func(c Counters) int64 { return c.Strays },
		},
		{
			"ERRORs", nil, loop,
			func(int) []byte { return tftptest.ErrorPacket(5, "no") }, floodSize,
			0, 0, 0, 0, func(c Counters) int64 { return c.Strays },
		},
	}
	for _, test := range tests {
		runCase(t, test.name, func(s *Config) {
			s.Grace = time.Millisecond // so that transfers of the flood end at once when the server stops
			if test.configure != nil {
				test.configure(s)
			}
		}, func(tb *testbed) {
			writeFile(tb, tb.dir, "image0", string(tftptest.Content("image", 5000)))
			writeFile(tb, tb.dir, "image1", string(tftptest.Content("image", 5000)))
			heap, was, start := heapNow(), tb.server.Counters(), time.Now()
			tb.flood(test.to(tb), test.packet, test.ports)
			c, took := tb.server.Counters(), time.Since(start)
			if n := test.counted(c) - test.counted(was); n < floodSize/10 || n > floodSize+100 {
				tb.Errorf("%d of %d datagrams counted", n, floodSize)
			}
			seconds := int64(took/time.Second) + 2
			if most := test.live + seconds*test.begun + 2; c.Live > most {
				tb.Errorf("%d transfers under way after %v, want at most %d", c.Live, took, most)
			}
			const goodPeers = 200 // including repeats of the good peer's requests
			if n, most := c.PacketsOut-was.PacketsOut, test.out+seconds*test.aSecond+goodPeers; n > most {
				tb.Errorf("%d datagrams sent in %v, want at most %d", n, took, most)
			}
			if grown := heapNow(); grown > heap+maxFloodHeap {
				tb.Errorf("the heap has grown from %d to %d bytes", heap, grown)
			}
			if took > tftptest.Patience {
				tb.Errorf("the flood took %v", took)
			}
			tb.good.finish()
			tb.wantServedSoon()
			tb.leaves = true
		})
	}
	t.Logf("%d floods took %v", len(tests), time.Since(began))
}

// flood sends a flood, while the good peer continues its transfers.
func (tb *testbed) flood(to net.Addr, packet func(i int) []byte, ports int) {
	tb.Helper()
	var conn net.PacketConn
	var err error
	for i := range floodSize {
		if conn == nil {
			if conn, err = net.ListenPacket("udp4", badPeerAddr()); err != nil {
				tb.Fatal(err)
			}
		}
		if _, err := conn.WriteTo(packet(i), to); err != nil {
			tb.Fatal(err)
		}
		if ports > 1 || i == floodSize-1 {
			conn.Close()
			conn = nil
		}
		if i%(floodSize/8) == 0 {
			tb.good.step()
		}
	}
}

// wantServedSoon checks that a peer that repeats its request is served.
func (tb *testbed) wantServedSoon() {
	tb.Helper()
	p := tb.another()
	for deadline := time.Now().Add(tftptest.Patience); time.Now().Before(deadline); {
		p.To = tb.server.Addr()
		p.Send(tftptest.RRQ(goodFile))
		for got := p.Next(resendAfter); got != nil; got = p.Next(resendAfter) {
			if string(got) == string(tftptest.Data(1, tb.good.want[:512])) {
				p.Send(tftptest.ErrorPacket(0, "enough"))
				return
			}
		}
	}
	tb.Errorf("a peer that asks again and again is not served")
}
