package tftp

import (
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/internal/sim"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
)

func peerAt(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, byte(i >> 16), byte(i >> 8)}), uint16(1024+i&0xff))
}

// Packets of running transfers allocate no memory, in either direction.
func TestNothingAllocatedPerPacket(t *testing.T) {
	const window, peers = 8, 16
	m := newSteppedServer(Config{Store: &tftptest.Endless{Size: 1 << 40}, Upload: OverwriteUploads, MaxUpload: 1 << 50, Bandwidth: 1 << 40, BandwidthPerClient: 1 << 40})
	for i := range peers {
		if i%2 == 0 {
			m.ask(peerAt(i), tftptest.RRQ("image", "windowsize", "8", "blksize", "1024"))
		} else {
			m.ask(peerAt(i), tftptest.WRQ("image", "windowsize", "8", "blksize", "1024"))
		}
	}
	m.turn(0)
	m.turn(0)
	for i := 0; i < peers; i += 2 {
		m.deliver(i/2, peerAt(i), tftptest.ACK(0))
	}
	m.turn(peers / 2)

	block, packet := 0, tftptest.Data(0, make([]byte, 1024))
	round := func() {
		for range window {
			block++
			packet[2], packet[3] = byte(block>>8), byte(block)
			for i := 1; i < peers; i += 2 {
				m.deliver(i/2, peerAt(i), packet)
			}
			m.turn(peers / 2)
		}
		for i := 0; i < peers; i += 2 {
			m.sh.in[i/2].Data = append(m.sh.in[i/2].Data[:0], 0, 4, byte(block>>8), byte(block))
			m.sh.in[i/2].Peer = peerAt(i)
		}
		m.turn(peers / 2)
		m.turn(0)
	}
	for range 20 {
		round()
	}
	sent := m.conn.datagrams
	const rounds = 200
	allocs := testing.AllocsPerRun(rounds, round)
	perRound := (m.conn.datagrams - sent) / (rounds + 1)
	if want := peers/2*window + peers/2; perRound != want {
		t.Fatalf("%d datagrams sent in a round, want %d: the test no longer does what it should", perRound, want)
	}
	if allocs != 0 && !race.Enabled {
		t.Errorf("%v allocations in a round of %d packets", allocs, perRound+peers/2*window)
	}
	m.halt(t)
}

// A transfer only allocates a few small pieces of memory, for its name and its file.
func TestLittleAllocatedPerTransfer(t *testing.T) {
	m := newSteppedServer(Config{
		Store: &tftptest.Endless{Size: 100}, Upload: OverwriteUploads,
		Rules: []ClientRule{refusal("tsize", "10.0.0.0/8"), refusal("tsize,blksize", "192.0.0.0/16"), {Rollover: transfer.RolloverOne}},
	})
	read, write := tftptest.RRQ("boot/image", "blksize", "1024"), tftptest.WRQ("boot/image", "tsize", "7")
	first, short := tftptest.ACK(1), tftptest.Data(1, make([]byte, 100))
	i := 0
	whole := func() {
		i++
		peer := peerAt(i % 1000)
		m.ask(peer, read)
		m.turn(0)
		m.turn(0)
		m.deliver(0, peer, first)
		m.turn(1)
		m.turn(0)
		m.ask(peer, write)
		m.turn(0)
		m.turn(0)
		m.deliver(0, peer, short)
		m.turn(1)
		m.turn(0)
		m.now = m.now.Add(time.Minute)
		m.turn(0)
		m.turn(0)
	}
	for range 2000 {
		whole()
	}
	if allocs := testing.AllocsPerRun(500, whole); allocs > 10 && !race.Enabled {
		t.Errorf("%v allocations for a read and a write", allocs)
	}
	if n := m.count.Load(); n != 0 {
		t.Errorf("%d sessions left", n)
	}
	m.halt(t)
}

// TestMemoryOfIdleSessions measures the memory of 10,000 transfers that wait for their peers.
func TestMemoryOfIdleSessions(t *testing.T) {
	const sessions, most = 10_000, 3 << 10
	m := newSteppedServer(Config{Store: &tftptest.Endless{Size: 1 << 40}, Limits: transfer.Limits{Window: 64}})
	request := tftptest.RRQ("boot/image", "windowsize", "64", "blksize", "1428")
	before := heap()
	for i := range sessions {
		m.ask(peerAt(i), request)
		if i%500 == 499 {
			m.turn(0)
			m.turn(0)
		}
	}
	if len(m.sh.sessions) != sessions {
		t.Fatalf("%d sessions", len(m.sh.sessions))
	}
	each := (heap() - before) / sessions
	t.Logf("%d bytes for each session", each)
	if each > most && !race.Enabled {
		t.Errorf("%d bytes for each session, want at most %d", each, most)
	}
	m.halt(t)
}

func heap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// FuzzServer sends arbitrary datagrams to both kinds of ports, at arbitrary times. Nothing must
// break or leak, and only files that may be written may change.
func FuzzServer(f *testing.F) {
	script := func(steps ...[]byte) (b []byte) {
		for _, s := range steps {
			b = append(append(b, s[0], byte(len(s)-1)), s[1:]...)
		}
		return b
	}
	to := func(how byte, packet []byte) []byte { return append([]byte{how}, packet...) }
	f.Add(script(to(0, tftptest.RRQ("image")), to(1, tftptest.ACK(1)), to(1, tftptest.ACK(2)), to(1, tftptest.ACK(3))))
	f.Add(script(to(0, tftptest.WRQ("new", "blksize", "8", "windowsize", "4")), to(1, tftptest.Data(2, []byte("secondly"))), to(1, tftptest.Data(1, []byte("first..."))), to(1, tftptest.Data(3, nil))))
	f.Add(script(to(0, tftptest.Packet(2, "text", "netascii", nil)), to(1, tftptest.Data(1, []byte("a\r\nb\r"))), to(4, tftptest.RRQ("image")), to(64, nil)))
	f.Add(script(to(0, tftptest.RRQ("image")), to(0, tftptest.RRQ("image")), to(65, tftptest.ACK(1)), to(0, tftptest.WRQ("image")), to(1, tftptest.ErrorPacket(0, "x"))))
	f.Fuzz(func(t *testing.T, steps []byte) {
		mem := store.Mem(8 << 20)
		image := tftptest.Content("image", 1300)
		storetest.Put(t, mem, "image", image)
		disk := &sim.Disk{Store: mem}
		uploads := CreateUploads
		if len(steps) > 0 && steps[0]&32 != 0 {
			uploads = OverwriteUploads
		}
		m := newSteppedServer(Config{Store: disk, Upload: uploads, MaxUpload: 1 << 16, MaxTransfers: 3})
		for len(steps) >= 2 {
			how, n := steps[0], min(int(steps[1]), len(steps)-2)
			b := steps[2 : 2+n]
			steps = steps[2+n:]
			peer := peerAt(int(how>>2) & 3)
			if how&64 != 0 {
				m.now = m.now.Add(time.Duration(how&15) * time.Second)
			}
			if how&1 == 0 {
				m.ask(peer, b)
				m.turn(0)
			} else {
				m.deliver(0, peer, b)
				m.turn(1)
			}
		}
		m.halt(t)
		if n := disk.Unclosed(); n != 0 {
			t.Errorf("%d files left open", n)
		}
		if uploads == CreateUploads {
			tftptest.WantFile(t, mem, "image", image)
		}
	})
}
