package protocol

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// On a busy host some round trips take milliseconds longer than the others, which look steady. This
// must cause only few needless timeouts, and each of them may repeat only one block.
func TestJitterIsNotLoss(t *testing.T) {
	const blocks = 20_000
	for _, slow := range []time.Duration{3 * time.Millisecond, 8 * time.Millisecond, 30 * time.Millisecond} {
		rng := rand.New(rand.NewPCG(1, 2))
		s, now := answered(transfer.Options{BlockSize: 8, Window: 1}, blocks*8-1)
		sent, slowTrips := int64(0), int64(0)
		for {
			sent += int64(sendAll(s, now))
			trip := 100 * time.Microsecond
			if rng.IntN(100) == 0 {
				trip = slow
				slowTrips++
			}
			block, copies := s.next-1, 1
			for at := now.Add(trip); !s.Deadline().After(at); copies++ {
				now = s.Deadline()
				s.Expire(now)
				sent += int64(sendAll(s, now))
			}
			now = now.Add(max(0, trip-time.Duration(copies-1)*minRTO))
			for range copies { // a peer that follows RFC 1350 answers each copy
				s.Handle(now, appendAck(nil, block, transfer.RolloverZero))
			}
			if done, err := s.Done(); done {
				if err != nil {
					t.Errorf("%v: %v", slow, err)
				}
				break
			}
		}
		// The margin rises up to cautiousRTO. Only trips that are slower than that cause a needless
		// timeout each.
		most := int64(blocks/calmTrips + 8)
		if slow > cautiousRTO {
			most = 3 * slowTrips
		}
		if again := sent - blocks; again > most || slowTrips < blocks/200 {
			t.Errorf("%d of %d trips took %v, and %d blocks were sent twice, more than %d", slowTrips, blocks, slow, again, most)
		}
	}
}

// If a timeout sent the end of a window again needlessly, the second answer to that end does not
// report a gap in the next window.
func TestEchoIsNoGap(t *testing.T) {
	s, now := answered(transfer.Options{BlockSize: 8, Window: 4}, 1<<20)
	for range 3 {
		sendAll(s, now)
		now = now.Add(time.Millisecond)
		s.Handle(now, appendAck(nil, s.next-1, transfer.RolloverZero))
	}
	sendAll(s, now)
	now = s.Deadline()
	s.Expire(now)
	if n := sendAll(s, now); n != 1 {
		t.Fatalf("%d blocks sent after a timeout", n)
	}
	floor := s.timer.rto(0)
	now = now.Add(100 * time.Microsecond) // sooner than an answer can arrive
	end := s.next - 1
	s.Handle(now, appendAck(nil, end, transfer.RolloverZero))
	if n := sendAll(s, now); n != 4 || s.timer.margin <= minRTO {
		t.Fatalf("%d blocks sent, and the margin is %v", n, s.timer.margin)
	}
	now = now.Add(time.Millisecond)
	s.Handle(now, appendAck(nil, end, transfer.RolloverZero))
	if n := sendAll(s, now); n != 0 {
		t.Errorf("%d blocks sent for an echo", n)
	}
	now = now.Add(time.Millisecond)
	s.Handle(now, appendAck(nil, end, transfer.RolloverZero))
	if n := sendAll(s, now); n == 0 {
		t.Errorf("no block sent for the report of a gap behind an echo (timeout was %v)", floor)
	}
}

// A receiver's timer repeats its ACK when the next block is lost. That is not an echo, so real
// losses, however many, do not change the timer's margin.
func TestLossIsNotHaste(t *testing.T) {
	for _, loss := range []float64{0.01, 0.05, 0.2} {
		w := &world{
			rng: rand.New(rand.NewPCG(1, 2)), size: 1_000_000,
			f: faults{bandwidth: 125_000_000, delay: 70 * time.Microsecond, loss: loss},
		}
		w.req = transfer.Request{Name: "f", Offer: transfer.Options{BlockSize: testBlock, Window: 1}}
		highest := time.Duration(0)
		w.watch = func() { highest = max(highest, w.s.timer.margin) }
		w.run()
		if w.problem != "" || highest > 2*minRTO || w.s.stats.Timeouts == 0 {
			t.Errorf("loss %v: margin of %v after %d timeouts %s", loss, highest, w.s.stats.Timeouts, w.problem)
		}
	}
}

// In lock-step, 1 % loss in each direction costs less than half of the throughput. The path has
// half a millisecond and jitter, the clocks of the drivers tick once a millisecond, and there is
// also a foreign client that waits for a second.
func TestLockStepLoss(t *testing.T) {
	f := faults{bandwidth: 12_500_000, delay: 240 * time.Microsecond, jitter: 100 * time.Microsecond, tick: time.Millisecond}
	clean, _ := measure(t, f, 1, 1)
	f.loss = 0.01
	if lossy, _ := measure(t, f, 1, 3); lossy < clean/2 {
		t.Errorf("%.2f MB/s with loss, %.2f without", lossy, clean)
	}
	took := func(loss float64) time.Duration {
		w := &foreignWorld{
			rng: rand.New(rand.NewPCG(1, 2)), loss: loss, delay: 250 * time.Microsecond,
			f: foreignReceiver{window: 1, nacks: nackNever, timeout: time.Second},
		}
		d, err := w.run(5000)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if clean, lossy := took(0), took(0.01); lossy > 2*clean {
		t.Errorf("a foreign client waits %v with loss, %v without", lossy, clean)
	}
}

// Round trips are measured for whole windows, and for an OACK that made the peer open a file. The
// answer to a single block may arrive much sooner. Such an answer must not be ignored as too early:
// the gap that it reports is filled at most one round trip after the block that it answers.
func TestQuickAnswersCount(t *testing.T) {
	const trip, quick = 2 * time.Millisecond, 100 * time.Microsecond
	for _, test := range []struct {
		name  string
		begin func(s *Sender, now time.Time) time.Time // begins a round, and returns its time
		leap  int64                                    // blocks that the answer acknowledges
	}{
		{"reported gap", func(s *Sender, now time.Time) time.Time {
			now = now.Add(trip)
			s.Handle(now, appendAck(nil, s.acked, transfer.RolloverZero))
			return now
		}, 5},
		{"timeout", func(s *Sender, _ time.Time) time.Time {
			now := s.Deadline()
			s.Expire(now)
			return now
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, now := answered(transfer.Options{BlockSize: 8, Window: 16}, 1<<20)
			for range 5 {
				sendAll(s, now)
				now = now.Add(trip)
				s.Handle(now, appendAck(nil, s.next-1, transfer.RolloverZero))
			}
			sendAll(s, now)
			began := test.begin(s, now)
			if n := sendAll(s, began); n != 1 {
				t.Fatalf("the round begins with %d blocks, want 1", n)
			}
			now = began.Add(quick)
			s.Handle(now, appendAck(nil, s.acked+test.leap, transfer.RolloverZero))
			missing := s.acked + 1
			for s.Due(now).Blocks > 0 && s.Due(now).Block != missing {
				s.Sent(now, s.Due(now).Blocks) // new blocks
			}
			if s.Due(now).Blocks == 0 {
				now = s.Deadline()
				s.Expire(now)
			}
			if run := s.Due(now); run.Block != missing || now.Sub(began) > trip {
				t.Errorf("%v after the round began block %d is due, want %d after %v", now.Sub(began), run.Block, missing, trip)
			}
		})
	}
}
