package udp

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkStream measures what a transfer with windows costs in system calls and copies. It sends
// messages, whose datagrams have the size of an Ethernet frame, and receives them on the same
// socket, in turn.
func BenchmarkStream(b *testing.B) {
	for _, bb := range []struct {
		name   string
		config Config
		run    int // datagrams per message
	}{
		{"one", Config{}, 1}, {"44", Config{}, 44}, {"44 plain", Config{Plain: true}, 44},
	} {
		b.Run(bb.name, func(b *testing.B) {
			const segment = 1472 // bytes: an MTU of 1500 minus 28 for headers
			c := listen(b, loopback4, bb.config)
			in := buffers(c.Limits().Messages)
			out := []Message{{Peer: c.LocalAddr(), Data: pattern(bb.run * segment), Segment: segment}}
			b.SetBytes(int64(len(out[0].Data)))
			b.ReportAllocs()
			for b.Loop() {
				write(b, c, out...)
				for left := bb.run; left > 0; {
					n, err := c.Read(in, time.Now().Add(patience))
					if err != nil {
						b.Fatal(err)
					}
					for i := range in[:n] {
						for range in[i].Datagrams() {
							left--
						}
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*bb.run), "ns/datagram")
		})
	}
}

// BenchmarkDatagrams measures the cost of splitting a glued message.
func BenchmarkDatagrams(b *testing.B) {
	for _, run := range []int{1, 44} {
		b.Run(fmt.Sprint(run), func(b *testing.B) {
			m := Message{Data: pattern(run * 1472), Segment: 1472}
			for n := 0; b.Loop(); {
				for d := range m.Datagrams() {
					n += len(d)
				}
			}
		})
	}
}
