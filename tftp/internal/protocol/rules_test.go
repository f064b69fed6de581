package protocol

import (
	"bytes"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// Each rule in this file is from docs/tftp.md, sections 2.8 and 4. Without these tests, only tables
// of virtual time would fail if a rule is broken.

// A bench drives a Sender step by step, with a round trip of 10 ms.
type bench struct {
	t   *testing.T
	s   Sender
	now time.Time
}

const benchTrip = 10 * time.Millisecond

// newBench begins a transfer of 1000 blocks, up to the first window.
func newBench(t *testing.T, window int) *bench {
	b := &bench{t: t, now: time.Unix(1e6, 0)}
	b.s.Answer(b.now, transfer.Options{BlockSize: 8, Window: window}, 8*1000)
	b.s.AppendReply(b.now, nil)
	b.ack(0)
	b.want("the first window", 1, int64(window))
	return b
}

// ack delivers an acknowledgement, a round trip later.
func (b *bench) ack(k int) {
	b.now = b.now.Add(benchTrip)
	b.s.Handle(b.now, []byte{0, 4, byte(k >> 8), byte(k)})
}

// expire advances the time to the deadline.
func (b *bench) expire() {
	b.now = b.s.Deadline()
	b.s.Expire(b.now)
}

// want sends the blocks that are due, and checks the first and last block of each run.
func (b *bench) want(what string, blocks ...int64) {
	b.t.Helper()
	var got []int64
	for run := b.s.Due(b.now); run.Blocks > 0; run = b.s.Due(b.now) {
		got = append(got, run.Block, run.Block+int64(run.Blocks)-1)
		b.s.Sent(b.now, run.Blocks)
	}
	if len(got) != len(blocks) {
		b.t.Fatalf("%s: blocks %v, want %v", what, got, blocks)
	}
	for i := range got {
		if got[i] != blocks[i] {
			b.t.Fatalf("%s: blocks %v, want %v", what, got, blocks)
		}
	}
}

// If the answer covers blocks after the resent one, the peer keeps blocks out of order. From then
// on only missing blocks are sent again: one, then two, then four, as each answer shows the next
// gap.
func TestKeepersGetTwiceAsManyEachTime(t *testing.T) {
	b := newBench(t, 32)
	b.ack(1)
	b.want("the first gap", 2, 2)
	b.ack(3) // the peer had block 3 already
	b.want("two", 4, 5, 33, 35)
	b.ack(6)
	b.want("four", 7, 10, 36, 38)
	b.ack(11)
	b.want("eight", 12, 19, 39, 43)
}

// If no answer arrives within the timeout, everything from the gap follows. After two such timeouts
// the peer counts as one that drops blocks out of order, and gets everything at once.
func TestTwoMissesMakeAPeerThatDrops(t *testing.T) {
	b := newBench(t, 8)
	for _, at := range []int64{0, 10} {
		b.ack(int(at) + 2)
		b.want("one block alone", at+3, at+3)
		if b.s.recovery.kind != kindUnknown {
			t.Fatal("the kind is known already")
		}
		b.expire()
		b.want("no answer", at+3, at+8, at+9, at+10)
		b.ack(int(at) + 10)
		b.want("the next window", at+11, at+18)
	}
	if b.s.recovery.kind != kindDrops {
		t.Errorf("after two misses the kind is %d", b.s.recovery.kind)
	}
}

// A silent peer gets everything again at most four times.
func TestSilentPeersGetFewWindows(t *testing.T) {
	b := newBench(t, 100)
	b.ack(100)
	b.want("the second window", 101, 200)
	wholes := 0
	for {
		b.expire()
		if done, _ := b.s.Done(); done {
			break
		}
		for run := b.s.Due(b.now); run.Blocks > 0; run = b.s.Due(b.now) {
			if run.Blocks > 2 {
				wholes++
			}
			b.s.Sent(b.now, run.Blocks)
		}
	}
	if wholes != maxWholes || maxWholes != 4 {
		t.Errorf("the window was sent again %d times", wholes)
	}
}

// Deviation 9: a gap is reported when three blocks have overtaken the missing one, and not before.
func TestThreeBlocksShowAGap(t *testing.T) {
	var r Receiver
	now := time.Unix(1e6, 0)
	r.Answer(now, transfer.Octet, transfer.Options{BlockSize: 8, Window: 64})
	r.AppendReply(now, nil)
	for _, block := range []byte{1, 3, 4, 5} {
		now = now.Add(time.Millisecond)
		r.Handle(now, append([]byte{0, 3, 0, block}, "8 bytes."...))
		r.Stored(now)
		want := []byte(nil)
		if block == 5 {
			want = []byte{0, 4, 0, 1}
		}
		if got := r.AppendReply(now, nil); !bytes.Equal(got, want) {
			t.Errorf("after block %d: %q, want %q", block, got, want)
		}
	}
}

// RFC 6298 §2.3: the variance is updated first, with the old smoothed round trip.
func TestVarianceComesFirst(t *testing.T) {
	var tm timer
	tm.sample(100 * time.Millisecond)
	tm.sample(200 * time.Millisecond)
	if tm.srtt != 112500*time.Microsecond || tm.rttvar != 62500*time.Microsecond {
		t.Errorf("a round trip of %v and a variance of %v", tm.srtt, tm.rttvar)
	}
}

// The shortest timeout is 2 ms, or two round trips if that is more, but then at most 10 ms. A
// margin that hasty timeouts have raised is halved after 1024 calm trips.
func TestTimerFloors(t *testing.T) {
	for trip, want := range map[time.Duration]time.Duration{
		100 * time.Microsecond: minRTO,
		4 * time.Millisecond:   8 * time.Millisecond,
		8 * time.Millisecond:   cautiousRTO,
	} {
		tm := timer{}
		tm.limit(0)
		for range 2000 {
			tm.sample(trip)
		}
		if got := tm.rto(0); got != want {
			t.Errorf("trips of %v: %v, want %v", trip, got, want)
		}
	}
	var tm timer
	for range 3 {
		tm.hasty()
	}
	for i, want := range []time.Duration{cautiousRTO / 2, cautiousRTO / 4} {
		for range calmTrips {
			tm.sample(time.Millisecond)
		}
		if tm.margin != want {
			t.Errorf("after %d calm trips: a margin of %v, want %v", (i+1)*calmTrips, tm.margin, want)
		}
	}
}

// A trial has half as many blocks as arrived, but at least 4 and at most 16.
func TestTrialSizes(t *testing.T) {
	for arrived, want := range map[int64]int64{1: 4, 8: 4, 20: 10, 31: 15, 100: 16} {
		if got := trialOf(arrived); got != want {
			t.Errorf("%d came: a trial of %d, want %d", arrived, got, want)
		}
	}
}

// After 16 windows that arrive complete, bursts grow by a quarter. Each time that is too much,
// twice as many windows must arrive complete before the next try.
func TestPacerTriesMore(t *testing.T) {
	const window = 64
	var p pacer
	p.lower(20)
	windows := func() (n int) {
		for before := p.holds; p.holds == before && n < 1000; n++ {
			p.came(window, window)
		}
		return n
	}
	for _, want := range []int{16, 32, 64} {
		if n := windows(); n != want || p.holds != 25 {
			t.Fatalf("after %d windows %d blocks are tried, want 25 after %d", n, p.holds, want)
		}
		p.lostRun() // the burst was too large
		if p.holds != 20 {
			t.Fatalf("too much was tried, and then %d", p.holds)
		}
	}
}

// Only misses in a row count: an answer that confirms the assumed kind of peer resets their number.
func TestMissesCountInARow(t *testing.T) {
	var r recovery
	now := time.Unix(1e6, 0)
	r.begin(now, 0, 10, benchTrip)
	r.unanswered(now, 0, 10)
	r.begin(now, 0, 10, benchTrip)
	r.sent(now, 1, 1)
	r.advance(now.Add(benchTrip), 5, benchTrip) // the peer has blocks that were not sent again
	if r.kind != kindKeeps || r.misses != 0 {
		t.Fatalf("after an answer the kind is %d, with %d misses", r.kind, r.misses)
	}
	r.miss(kindUnknown)
	if r.kind != kindKeeps {
		t.Error("one miss has changed the kind: an older one counted")
	}
	r.miss(kindUnknown)
	if r.kind != kindUnknown || r.misses != 0 {
		t.Errorf("after two misses the kind is %d, with %d misses left", r.kind, r.misses)
	}
}

// After a timeout, a peer that drops blocks out of order gets everything under way again. Any other
// peer gets only the last block.
func TestTimeoutByKind(t *testing.T) {
	for kind, want := range map[peerKind][]int64{
		kindUnknown: {16, 16},
		kindKeeps:   {16, 16},
		kindDrops:   {9, 16},
	} {
		b := newBench(t, 8)
		b.ack(8)
		b.want("the second window", 9, 16)
		b.s.recovery.kind = kind
		b.expire()
		b.want("after a timeout", want...)
	}
}

// A peer that keeps blocks out of order should answer the last block, and then the first one. A
// peer that answers neither, twice in a row, becomes unknown.
func TestSilentKeepersBecomeUnknown(t *testing.T) {
	b := newBench(t, 8)
	b.ack(8)
	b.want("the second window", 9, 16)
	b.s.recovery.kind = kindKeeps
	for i, want := range []peerKind{kindKeeps, kindUnknown} {
		b.expire()
		b.want("the last block", 16, 16)
		b.expire()
		b.want("the first block", 9, 9)
		if b.s.recovery.kind != want {
			t.Fatalf("after %d misses the kind is %d, want %d", i+1, b.s.recovery.kind, want)
		}
	}
}

// When the end of about every third window is lost, windows are sent in bursts. Such a window adds
// two strikes, any other window subtracts one, and at six the pacer sends bursts.
func TestStrikesDecay(t *testing.T) {
	const window = 64
	lose := func(p *pacer) { p.lostTail(40, window, benchTrip) }
	var p pacer
	for i := range 50 { // the end of only every third window is lost
		lose(&p)
		p.came(window, window)
		p.came(window, window)
		if p.holds != 0 {
			t.Fatalf("bursts after %d losses, two whole windows behind each", i+1)
		}
	}
	for i := range 3 {
		if p.holds != 0 {
			t.Fatalf("bursts after %d losses in a row", i)
		}
		lose(&p)
	}
	if p.holds != 40 {
		t.Errorf("after three losses in a row bursts are of %d blocks, want 40", p.holds)
	}
	p = pacer{}
	n := 0
	for ; p.holds == 0 && n < 100; n++ { // the end of every other window is lost
		lose(&p)
		p.came(window, window)
	}
	if n != 5 {
		t.Errorf("bursts after %d losses, a whole window behind each, want 5", n)
	}
}

// If the pace is a guess and the peer drops blocks out of order, each gap inside a window halves
// the pace, until a burst takes twice longPause.
func TestGapsSlowAGuessedPace(t *testing.T) {
	for _, report := range []bool{false, true} {
		b := newBench(t, 64)
		b.s.recovery.kind = kindDrops
		b.s.pacer.lower(32)
		each := b.s.pacer.each
		if report { // the ACK is repeated
			b.ack(0)
		} else {
			b.ack(10)
		}
		if b.s.pacer.each != 2*each {
			t.Errorf("a gap (ACK repeated: %v) has a block take %v, want twice %v", report, b.s.pacer.each, each)
		}
	}
	var p pacer
	p.lower(32)
	for range 20 {
		p.hurried()
	}
	if want := 2 * longPause / 32; p.each != want {
		t.Errorf("after many gaps a block takes %v, want %v", p.each, want)
	}
	p.guess = false
	p.each = time.Microsecond
	if p.hurried(); p.each != time.Microsecond {
		t.Error("a gap has changed a pace that was measured")
	}
}

// Deviation 1: at least 10 ms are added to the round trip for windows to a peer that drops blocks
// out of order, because everything would be sent again. For other peers it is 1 ms.
func TestTimeoutOfDroppersIsCautious(t *testing.T) {
	for kind, want := range map[peerKind]time.Duration{
		kindUnknown: benchTrip + clockGrain,
		kindKeeps:   benchTrip + clockGrain,
		kindDrops:   benchTrip + cautiousRTO,
	} {
		b := newBench(t, 8)
		for k := 8; k <= 800; k += 8 { // until the variance has decayed
			b.ack(k)
			b.want("a window", int64(k+1), int64(k+8))
		}
		b.s.recovery.kind = kind
		if got := b.s.rto(); got.Round(100*time.Microsecond) != want {
			t.Errorf("kind %d: a timeout of %v, want %v", kind, got, want)
		}
	}
}

// If only the last window of a read lacks its ACK, the read ends after 5 s of silence, even if the
// timer has backed off further.
func TestReadWithoutLastACKEndsInTime(t *testing.T) {
	b := newBench(t, 8)
	b.s.timer.limit(time.Minute)
	for k := 8; k <= 992; k += 8 {
		b.now = b.now.Add(-benchTrip / 2) // so that the 8th timeout is before 5 s, and the 9th after
		b.ack(k)
		b.want("a window", int64(k+1), int64(k+8))
	}
	b.ack(1000)
	b.want("the block without data", 1001, 1001)
	heard := b.now
	for tries := 1; ; tries++ {
		b.expire()
		if done, err := b.s.Done(); done {
			if silent := b.now.Sub(heard); err != nil || silent != finalSilence || tries <= manyTries {
				t.Errorf("over after %v and %d timeouts (%v), want %v", silent, tries, err, finalSilence)
			}
			return
		}
		b.want("the block again", 1001, 1001)
	}
}

// A driver that limits the rate holds blocks back. Meanwhile the timer does not expire, and neither
// an acknowledgement nor its repeat triggers a send.
func TestHeldBlocksWait(t *testing.T) {
	for _, window := range []int{1, 4} {
		b := newBench(t, window)
		b.ack(window)
		held := b.now.Add(300 * time.Millisecond)
		if window > 1 { // a part of the window is sent first
			b.s.Sent(b.now, 2)
		}
		b.s.Hold(held)
		b.want("while held", nil...)
		first := b.s.next
		b.ack(int(first) - 1) // as if the peer's own timer had expired; in lock-step this is a repeated ACK
		b.want("after an acknowledgement of what has come", nil...)
		for b.now.Before(held) {
			if b.s.Deadline().IsZero() || b.s.Deadline().After(held) {
				t.Fatalf("window %d: the deadline is %v, the blocks are held until %v", window, b.s.Deadline(), held)
			}
			b.expire()
		}
		b.want("after that", first, first+int64(window)-1)
		if st := b.s.Stats(); st.Resent != 0 || st.Timeouts != 0 {
			t.Errorf("window %d: %d blocks sent again, %d timeouts", window, st.Resent, st.Timeouts)
		}
		b.expire()
		if st := b.s.Stats(); st.Timeouts != 1 {
			t.Errorf("window %d: %d timeouts once the blocks have left", window, st.Timeouts)
		}
	}
}
