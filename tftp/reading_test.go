package tftp

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/udp"
)

// A writes socket records how many datagrams each Write has.
type writes struct {
	deadEnd
	datagrams []int
}

func (c *writes) Write(ms []udp.Message) (int, error) {
	n := 0
	for i := range ms {
		for range ms[i].Datagrams() {
			n++
		}
	}
	c.datagrams = append(c.datagrams, n)
	return len(ms), nil
}

// Over a network, an eighth of a long window is sent while the rest is read. This does not happen
// with a short window, on one machine, or if there is more to send.
func TestHeadOfWindow(t *testing.T) {
	for _, tt := range []struct {
		window, peers int
		trip          time.Duration
		want          []int
	}{
		{1, 1, networkTrip, []int{1}},
		{15, 1, networkTrip, []int{15}},
		{16, 1, networkTrip, []int{2, 14}},
		{64, 1, networkTrip, []int{8, 56}},
		{16, 1, networkTrip / 2, []int{16}},
		{16, 2, networkTrip, []int{32}},
	} {
		m := newSteppedServer(Config{Store: &tftptest.Endless{Size: 1 << 40}})
		conn := &writes{}
		m.sh = newShard(m.bindings[0], conn, false)
		m.bindings[0].shards = []*shard{m.sh}
		m.share()
		for i := range tt.peers {
			m.ask(peerAt(i), tftptest.RRQ("image", "windowsize", fmt.Sprint(tt.window)))
		}
		m.turn(0)
		m.turn(0)
		for round := range 3 {
			m.now = m.now.Add(tt.trip)
			conn.datagrams = conn.datagrams[:0]
			for i := range tt.peers {
				m.deliver(i, peerAt(i), tftptest.ACK(round*tt.window))
			}
			m.sh.turn(m.now, tt.peers)
		}
		if !slices.Equal(conn.datagrams, tt.want) {
			t.Errorf("window %d, %d transfers, trip %v: datagrams of each Write %d, want %d", tt.window, tt.peers, tt.trip, conn.datagrams, tt.want)
		}
		m.halt(t)
	}
}

// A small file is read and closed by the job that opens it. No other job follows, and the transfer
// holds memory only for the content. Larger files stay open, and so do all files if memory is
// scarce.
func TestSmallFilesNeedOneJob(t *testing.T) {
	for _, tt := range []struct {
		size   int
		scarce bool
		open   int
		held   int64
	}{
		{0, false, 0, 0},
		{1000, false, 0, 1000},
		{maxAhead, false, 0, maxAhead},
		{maxAhead + 1, false, 1, maxAhead},
		{1000, true, 1, 0},
	} {
		mem := store.Mem(1 << 30)
		want := tftptest.Content("image", tt.size)
		storetest.Put(t, mem, "image", want)
		d := newLockstepServer(t, Config{Store: mem, MaxFiles: 10})
		var others int64
		if tt.scarce {
			d.sh.memory.take(&others, d.memory.limit/2+1)
		}
		p := d.reads("image", 512)
		p.step()
		if open, held := d.files.Open(), d.Counters().Held-others; open != tt.open || held != tt.held {
			t.Errorf("%d bytes, scarce %t: %d files are open, %d bytes held, want %d and %d", tt.size, tt.scarce, open, held, tt.open, tt.held)
		}
		for !p.over() {
			p.step()
		}
		if string(p.got) != string(want) {
			t.Errorf("%d bytes came changed, error %q", tt.size, p.err)
		}
		before := d.sh.jobs
		d.deliver(0, p.peer, tftptest.ACK(p.acked))
		d.sh.turn(d.now, 1)
		if jobs := d.sh.jobs - before; jobs != tt.open {
			t.Errorf("%d bytes, scarce %t: %d jobs at the end", tt.size, tt.scarce, jobs)
		}
		for d.sh.jobs > 0 {
			d.turn(0)
		}
		d.sh.memory.release(&others)
		d.halt(t)
	}
}
