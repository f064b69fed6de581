package peer_test

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/tftp/tftpclient"
)

// floors runs a test with each floor.
func floors(t *testing.T, want []byte, test func(t *testing.T, p *peer.Process)) {
	set := peer.Find(bin)
	any := false
	for _, s := range set.Servers {
		if !s.Floor {
			continue
		}
		any = true
		t.Run(s.Name, func(t *testing.T) {
			p, _ := start(t, &s, want)
			test(t, p)
		})
	}
	if !any {
		t.Skip("no floor was built: gcc is missing")
	}
}

// Block numbers continue at 0 after 65535, wherever messages are cut.
func TestFloorRollover(t *testing.T) {
	want := content(8*70_000 + 3)
	floors(t, want, func(t *testing.T, p *peer.Process) {
		c := &tftpclient.Client{BlockSize: 8, Window: 100}
		if got, _ := download(t, c, p, "f"); !bytes.Equal(got, want) {
			t.Errorf("downloaded %d bytes, other than the %d served", len(got), len(want))
		}
		upload(t, c, p, "up", want)
		if got, _ := download(t, &tftpclient.Client{}, p, "up"); !bytes.Equal(got, want) {
			t.Errorf("downloaded %d bytes, other than the %d uploaded", len(got), len(want))
		}
	})
}

// Files whose size is a multiple of the block, and empty ones, end with an empty block; an upload
// replaces the file that was read before.
func TestFloorEnds(t *testing.T) {
	floors(t, nil, func(t *testing.T, p *peer.Process) {
		for _, c := range []*tftpclient.Client{{NoOptions: true}, {BlockSize: 512, Window: 4}} {
			for _, size := range []int{0, 1, 511, 512, 513, 4 * 512, 64 * 512} {
				want := content(size)
				upload(t, c, p, "f", want)
				if got, _ := download(t, c, p, "f"); !bytes.Equal(got, want) {
					t.Errorf("downloaded %d bytes, other than the %d uploaded", len(got), len(want))
				}
			}
		}
	})
}

// A wire sends and receives single packets.
type wire struct {
	t    *testing.T
	conn *net.UDPConn
	peer *net.UDPAddr
}

func dial(t *testing.T, p *peer.Process) *wire {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &wire{t, c, net.UDPAddrFromAddrPort(p.Addr())}
}

func (w *wire) send(op, number int, payload string) {
	w.t.Helper()
	p := binary.BigEndian.AppendUint16([]byte{0, byte(op)}, uint16(number))
	if _, err := w.conn.WriteToUDP(append(p, payload...), w.peer); err != nil {
		w.t.Fatal(err)
	}
}

func (w *wire) request(op byte, rest string) {
	w.t.Helper()
	if _, err := w.conn.WriteToUDP(append([]byte{0, op}, rest...), w.peer); err != nil {
		w.t.Fatal(err)
	}
}

// want receives the next packet, and checks its operation and number. An OACK has no number.
func (w *wire) want(op, number int) {
	w.t.Helper()
	buf := make([]byte, 2048)
	_ = w.conn.SetReadDeadline(time.Now().Add(patience))
	n, from, err := w.conn.ReadFromUDP(buf)
	if err != nil {
		w.t.Fatalf("waiting for operation %d, block %d: %v", op, number, err)
	}
	w.peer = from
	if got := int(buf[1]); got != op || op != oack && int(binary.BigEndian.Uint16(buf[2:])) != number {
		w.t.Fatalf("got % x of %d bytes, want operation %d, block %d", buf[:4], n, op, number)
	}
}

const (
	rrq  = 1
	wrq  = 2
	data = 3
	ack  = 4
	oack = 6
)

// Lost blocks are repeated from the position that the client reports, and a gap in what it sent
// is reported once (RFC 7440 section 4).
func TestFloorLoss(t *testing.T) {
	const block = "12345678"
	floors(t, []byte(block+block+block+block+block+"end"), func(t *testing.T, p *peer.Process) {
		w := dial(t, p)
		w.request(rrq, "f\x00octet\x00blksize\x008\x00windowsize\x004\x00")
		w.want(oack, 0)
		w.send(ack, 0, "")
		for n := range 4 {
			w.want(data, 1+n)
		}
		w.send(ack, 2, "") // block 3 was lost
		for n := range 4 {
			w.want(data, 3+n)
		}
		w.send(ack, 6, "")

		w = dial(t, p)
		w.request(wrq, "up\x00octet\x00blksize\x008\x00windowsize\x004\x00")
		w.want(oack, 0)
		w.send(data, 1, block)
		w.send(data, 3, block) // block 2 was lost
		w.want(ack, 1)
		w.send(data, 4, block)
		w.send(data, 2, block)
		w.send(data, 3, block)
		w.send(data, 4, block)
		w.send(data, 5, "end")
		w.want(ack, 5) // and not 1 again, for block 4
	})
}
