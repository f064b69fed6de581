package link

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const us = int64(time.Microsecond)

// A bench is a way with its own clock, and its output.
type bench struct {
	*way
	t     testing.TB
	now   int64
	sent  uint32
	got   []arrival
	spare [prefixLen + maxHeaders]byte
}

// An arrival is one wire packet that was delivered.
type arrival struct {
	number  uint32 // in sending order
	at, due int64
}

func newBench(t testing.TB, p Profile) *bench {
	t.Helper()
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	b := &bench{way: newWay(&p, A, make([]byte, 1<<22)), t: t}
	b.begin(A)
	return b
}

// send sends wire packets with 1,472 bytes of payload in one buffer, each with its number. It
// returns false if there was no room.
func (b *bench) send(count int) bool {
	const segment = 1472
	room := b.room()
	if room == nil {
		return false
	}
	made := super(4, kindUDP, count*segment, segment)
	for i := range count {
		binary.BigEndian.PutUint32(made[prefixLen+ipv4Header+udpHeader+i*segment:], b.sent)
		b.sent++
	}
	n := copy(room, made)
	s, err := parse(room[:n])
	if err != nil {
		b.t.Fatal(err)
	}
	b.accept(b.now, s, n)
	return true
}

// run delivers everything that is due until a time.
func (b *bench) run(until int64) {
	for {
		at, any := b.next()
		if !any || at > until {
			b.now = until
			return
		}
		b.now = max(b.now, at)
		before := len(b.got)
		for b.handOver() {
		}
		if len(b.got) == before {
			b.t.Fatalf("nothing was due at %d, as it should have been", at)
		}
	}
}

func (b *bench) handOver() bool {
	p, any := b.due(b.now)
	if !any {
		return false
	}
	if p.due > b.now {
		b.t.Fatalf("handed over at %d, but due at %d", b.now, p.due)
	}
	r := b.arena.at(p.record)
	head, payload := cut(b.arena.packet(r), &r.shape, p.first, p.count, b.spare[:])
	whole := slices.Concat(head, payload)[prefixLen+ipv4Header+udpHeader:]
	for i := range p.count {
		b.got = append(b.got, arrival{number: binary.BigEndian.Uint32(whole[i*1472:]), at: b.now, due: p.due})
	}
	b.settle(p)
	return true
}

// numbers returns the numbers of the packets that arrived, in order.
func (b *bench) numbers() []uint32 {
	var n []uint32
	for _, a := range b.got {
		n = append(n, a.number)
	}
	return n
}

const forever = int64(time.Hour)

func gigabit(delay time.Duration) Profile {
	p := Profile{Name: "test", Overhead: 38, MinFrame: 84, Seed: 7}
	p.Ways = [2]Way{{Rate: 1e9, Delay: delay}, {Rate: 1e9, Delay: delay}}
	return p
}

// TestPace checks that packets arrive in order, none before its last bit, none later than merging
// permits, and the last on time.
func TestPace(t *testing.T) {
	b := newBench(t, gigabit(100*time.Microsecond))
	const frame = 12304 // ns for 1,500 + 38 bytes
	b.send(20)
	b.run(forever)
	if len(b.got) != 20 {
		t.Fatalf("%d packets of 20", len(b.got))
	}
	calls := map[int64]bool{}
	for i, a := range b.got {
		exact := int64(i+1)*frame + 100*us
		if int(a.number) != i || a.at < exact || a.at > exact+int64(maxMerge) {
			t.Errorf("packet %d arrived %d us after its time, as number %d", i, (a.at-exact)/us, a.number)
		}
		calls[a.at] = true
	}
	if last := b.got[19].at - (20*frame + 100*us); last != 0 {
		t.Errorf("the last packet was %d ns late", last)
	}
	if len(calls) > 5 {
		t.Errorf("%d times something was handed over; want at most 5", len(calls))
	}
}

// TestLonePacketsAreExact checks that packets that are not back to back are on time.
func TestLonePacketsAreExact(t *testing.T) {
	b := newBench(t, gigabit(100*time.Microsecond))
	for i := range 5 {
		b.run(int64(i) * 30 * us)
		b.send(1)
	}
	b.run(forever)
	for i, a := range b.got {
		if want := int64(i)*30*us + 12304 + 100*us; a.at != want {
			t.Errorf("packet %d arrived at %d, not %d", i, a.at, want)
		}
	}
}

func TestUnlimitedRate(t *testing.T) {
	b := newBench(t, Profile{Ways: [2]Way{{Delay: time.Millisecond}, {}}})
	b.send(40)
	b.run(forever)
	if len(b.got) != 40 || b.got[0].at != 1000*us || b.got[39].at != 1000*us {
		t.Errorf("%d packets, the last at %d us; want 40 at 1000", len(b.got), b.got[len(b.got)-1].at/us)
	}
}

func TestQueue(t *testing.T) {
	p := gigabit(0)
	p.Ways[A].Queue = 10 * 1538
	b := newBench(t, p)
	b.send(25)
	if b.stats.QueueDrops != 15 || b.stats.MaxQueue != 10*1538 {
		t.Fatalf("%d dropped, %d bytes waited; want 15 and 15380", b.stats.QueueDrops, b.stats.MaxQueue)
	}
	b.run(5 * 12304) // half of it has been sent
	b.send(10)
	if b.stats.QueueDrops != 20 {
		t.Errorf("%d dropped; want 20", b.stats.QueueDrops)
	}
	b.run(forever)
	if len(b.got) != 15 || b.stats.Delivered != 15 {
		t.Errorf("%d arrived; want 15", len(b.got))
	}
}

// lostOf returns which of n packets do not arrive.
func lostOf(t *testing.T, p Profile, n int) (lost []uint32) {
	b := newBench(t, p)
	for b.sent < uint32(n) {
		b.send(10)
		b.run(b.now + 1000*us)
	}
	b.run(forever)
	got := map[uint32]bool{}
	for _, a := range b.got {
		got[a.number] = true
	}
	for i := range uint32(n) {
		if !got[i] {
			lost = append(lost, i)
		}
	}
	if b.stats.Lost != uint64(len(lost)) {
		t.Errorf("%d were lost, but %d counted", len(lost), b.stats.Lost)
	}
	return lost
}

func TestLossComesFromTheSeed(t *testing.T) {
	p := gigabit(0)
	p.Ways[A].Loss = 0.02
	const n = 20000
	first := lostOf(t, p, n)
	if len(first) < 320 || len(first) > 480 { // four standard deviations
		t.Errorf("%d of %d lost; want about 400", len(first), n)
	}
	p.Ways[A].Duplicate, p.Ways[A].Reorder = 0.1, 0.1
	if !slices.Equal(first, lostOf(t, p, n)) {
		t.Error("with duplicates, others are lost")
	}
	p.Seed++
	if slices.Equal(first, lostOf(t, p, n)) {
		t.Error("with another seed, the same are lost")
	}
}

func TestCertainFates(t *testing.T) {
	p := gigabit(0)
	p.Ways[A].Loss = 1
	if lost := lostOf(t, p, 100); len(lost) != 100 {
		t.Errorf("%d of 100 lost", len(lost))
	}
	p.Ways[A] = Way{Duplicate: 1}
	b := newBench(t, p)
	b.send(3)
	b.run(forever)
	if got := fmt.Sprint(b.numbers()); got != "[0 0 1 1 2 2]" || b.stats.Duplicated != 3 {
		t.Errorf("arrived %s, %d duplicated", got, b.stats.Duplicated)
	}
}

// TestReorder checks that held packets arrive late, that all arrive once, and that no memory
// stays in use.
func TestReorder(t *testing.T) {
	p := gigabit(50 * time.Microsecond)
	p.Ways[A].Reorder = 0.05
	b := newBench(t, p)
	for range 400 {
		b.send(5)
		b.run(b.now + 70*us)
	}
	b.run(forever)
	n := b.numbers()
	if slices.IsSorted(n) || b.stats.Reordered == 0 {
		t.Error("nothing was reordered")
	}
	slices.Sort(n)
	for i := range n {
		if int(n[i]) != i {
			t.Fatalf("packet %d did not come once", i)
		}
	}
	if len(n) != 2000 || b.arena.oldest != b.arena.newest || !b.runs.empty() || len(b.held) != 0 {
		t.Errorf("%d arrived, %d still kept", len(n), b.arena.newest-b.arena.oldest)
	}
}

// TestMemory fills the arena repeatedly with packets of all sizes. The packets arrive unchanged
// and in order; handOver detects other bytes.
func TestMemory(t *testing.T) {
	p := gigabit(10 * time.Millisecond)
	p.Ways[A].Queue = maxQueue
	b := newBench(t, p)
	random := rand.New(rand.NewPCG(1, 2))
	full := 0
	for range 3000 {
		if !b.send(1 + random.IntN(44)) {
			full++
			b.run(b.now + 5000*us)
		}
		b.run(b.now + random.Int64N(500*us))
	}
	b.run(forever)
	for i, a := range b.got {
		if int(a.number) != i {
			t.Fatalf("packet %d came as %d", a.number, i)
		}
	}
	if len(b.got) != int(b.sent) || full == 0 {
		t.Errorf("%d of %d arrived; %d times full", len(b.got), b.sent, full)
	}
}

func TestNoAllocationPerPacket(t *testing.T) {
	p := gigabit(0)
	p.Ways[A].Loss, p.Ways[A].Duplicate, p.Ways[A].Reorder = 0.1, 0.1, 0.1
	b := newBench(t, p)
	made := super(4, kindUDP, 20*1472, 1472)
	got := testing.AllocsPerRun(1000, func() {
		n := copy(b.room(), made)
		s, err := parse(made)
		if err != nil {
			t.Fatal(err)
		}
		b.accept(b.now, s, n)
		b.now += 1000 * us
		for {
			d, any := b.due(b.now)
			if !any {
				return
			}
			r := b.arena.at(d.record)
			cut(b.arena.packet(r), &r.shape, d.first, d.count, b.spare[:])
			b.settle(d)
		}
	})
	if got != 0 {
		t.Errorf("%g allocations for a packet", got)
	}
}

func TestHistogram(t *testing.T) {
	var h histogram
	for i := range int64(1000) {
		h.add(i * 1000)
	}
	if m := h.quantile(0.5); m < 440*time.Microsecond || m > 500*time.Microsecond {
		t.Errorf("the median of 0 to 999 us is %s", m)
	}
	if h.quantile(1) != 999*time.Microsecond {
		t.Errorf("the greatest is %s", h.quantile(1))
	}
}
