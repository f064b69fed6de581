package protocol

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// A cautious Sender needs one round trip more if it must hold back blocks of a large window. It
// needs no more time if the first window fits into the bound.
func TestCautionCostsARoundTrip(t *testing.T) {
	const allowed = 96 << 10
	for _, l := range testLinks {
		for _, window := range []int{1, 4, 64, 128, 256} {
			took := func(cautious int64) (time.Duration, transfer.Stats) {
				w := &world{rng: rand.New(rand.NewPCG(1, 2)), f: faults{bandwidth: l.bandwidth, delay: l.rtt / 2}, size: 4_000_000, cautious: cautious}
				w.req = transfer.Request{Name: "f", Offer: transfer.Options{BlockSize: testBlock, Window: window}}
				w.run()
				if w.problem != "" {
					t.Fatalf("%s, window %d: %s", l.name, window, w.problem)
				}
				return w.s.lastWord.Sub(w.base), w.s.Stats()
			}
			plain, _ := took(0)
			cautious, stats := took(allowed)
			most := plain
			if window*testBlock > allowed {
				most += l.rtt + l.rtt/2
			}
			if cautious > most {
				t.Errorf("%s, window %d: %v, want %v at most (%v without caution)", l.name, window, cautious, most, plain)
			}
			// Only the last block of the first window may be sent again.
			if stats.Timeouts != 0 || stats.Resent > 1 {
				t.Errorf("%s, window %d: %+v", l.name, window, stats)
			}
		}
	}
}

// A peer that acknowledges no data gets no more than the bound, whatever other packets it sends,
// and however long it sends them.
func TestCautionBounds(t *testing.T) {
	const allowed = 20_000
	for _, o := range []transfer.Options{{}, {BlockSize: 1428}, {BlockSize: 1428, Window: 256}, {BlockSize: 1428, Window: 8}, {BlockSize: 65464}, {BlockSize: 65464, Window: 32}, {BlockSize: 8, Window: 16384}} {
		for _, words := range []int{0, 1, 2, 100} { // number of ACK 0 packets
			var s Sender
			now := time.Unix(1e6, 0)
			s.Answer(now, o, 100_000_000)
			s.Cautious(allowed)
			sent, said := int64(0), 0
			for range 100_000 {
				s.AppendReply(now, nil)
				for run := s.Due(now); run.Blocks > 0; run = s.Due(now) {
					sent += run.Bytes
					s.Sent(now, run.Blocks)
				}
				if done, _ := s.Done(); done {
					break
				}
				now = now.Add(50 * time.Millisecond)
				if said < words {
					said++
					s.Handle(now, []byte{0, 4, 0, 0})
				}
				s.Expire(now)
			}
			if done, err := s.Done(); !done || err == nil {
				t.Errorf("%+v, %d words: done %v, %v", o, words, done, err)
			}
			block := int64(blockSizeOf(o))
			if most := max(allowed, 2*block) + max(block, cautiousRepeats) + int64(words)*max(leastPerWord, block/wordsPerBlock); sent > most {
				t.Errorf("%+v, %d words: %d bytes sent, want %d at most", o, words, sent, most)
			}
		}
	}
}

// After ACK 0 a cautious Sender sends the first blocks and the end of the window. It sends the
// blocks in between once the first ones are acknowledged.
func TestCautionSendsTheEndOfTheWindow(t *testing.T) {
	var s Sender
	now := time.Unix(1e6, 0)
	due := func() (runs []Run) {
		for run := s.Due(now); run.Blocks > 0; run = s.Due(now) {
			runs = append(runs, run)
			s.Sent(now, run.Blocks)
		}
		return runs
	}
	want := func(what string, got []Run, blocks ...int64) { // first and last of each run
		t.Helper()
		if len(got) != len(blocks)/2 {
			t.Fatalf("%s: %+v", what, got)
		}
		for i, run := range got {
			if run.Block != blocks[2*i] || run.Block+int64(run.Blocks)-1 != blocks[2*i+1] {
				t.Fatalf("%s: %+v, want %v", what, got, blocks)
			}
		}
	}
	s.Answer(now, transfer.Options{BlockSize: 1000, Window: 20}, 1_000_000)
	s.Cautious(6000)
	s.AppendReply(now, nil)
	now = now.Add(10 * time.Millisecond)
	s.Handle(now, []byte{0, 4, 0, 0})
	want("after ACK 0", due(), 1, 5, 20, 20)
	now = now.Add(10 * time.Millisecond)
	s.Handle(now, []byte{0, 4, 0, 5})
	want("after ACK 5", due(), 6, 20, 21, 25)
	if st := s.Stats(); st.Resent != 1 { // only block 20 was sent twice
		t.Errorf("%d sent again", st.Resent)
	}
	now = now.Add(10 * time.Millisecond)
	s.Handle(now, []byte{0, 4, 0, 25})
	want("after ACK 25", due(), 26, 45)
}
