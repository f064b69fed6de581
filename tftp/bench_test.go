package tftp

import (
	"fmt"
	"testing"

	"github.com/haul-project/haul/tftp/internal/tftptest"
)

// BenchmarkLockStep measures what a loop itself costs, without the kernel, for each packet of
// downloads in lock-step: an ACK arrives, and a block of 512 bytes is sent. A loop with 100 such
// transfers has about 16 packets in each turn.
func BenchmarkLockStep(b *testing.B) {
	const turn = 16
	for _, peers := range []int{16, 100, 1000, 10_000} {
		b.Run(fmt.Sprintf("%d", peers), func(b *testing.B) {
			m := newSteppedServer(Config{Store: &tftptest.Endless{Size: 1 << 40}, MaxTransfers: 2 * peers})
			for i := range peers {
				m.ask(peerAt(i), tftptest.RRQ("image"))
				m.turn(0)
			}
			m.turn(0)
			blocks := make([]uint16, peers)
			next := 0
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += turn {
				for i := range turn {
					blocks[next]++
					m.sh.in[i].Data = append(m.sh.in[i].Data[:0], 0, 4, byte(blocks[next]>>8), byte(blocks[next]))
					m.sh.in[i].Peer = peerAt(next)
					if next++; next == peers {
						next = 0
					}
				}
				m.turn(turn)
			}
			b.StopTimer()
			if want := b.N; m.conn.datagrams < want {
				b.Fatalf("%d datagrams sent, want %d", m.conn.datagrams, want)
			}
		})
	}
}
