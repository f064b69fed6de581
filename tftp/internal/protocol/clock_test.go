package protocol

import (
	"errors"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// answered returns a Sender that serves size bytes, and whose OACK was acknowledged after one
// millisecond. It also returns the time of that acknowledgement.
func answered(o transfer.Options, size int64) (*Sender, time.Time) {
	now := time.Unix(1_000_000, 0)
	s := new(Sender)
	s.Answer(now, o, size)
	s.AppendReply(now, nil)
	now = now.Add(time.Millisecond)
	s.Handle(now, appendAck(nil, 0, o.Rollover))
	return s, now
}

// sendAll sends all blocks that are due and returns their number.
func sendAll(s *Sender, now time.Time) (blocks int) {
	for run := s.Due(now); run.Blocks > 0; run = s.Due(now) {
		s.Sent(now, run.Blocks)
		blocks += run.Blocks
	}
	return blocks
}

// If a disk needs more time for a block than a peer may be silent, the peer must not count as
// silent, because the block has not been sent yet.
func TestSlowDiskIsNotSilence(t *testing.T) {
	for _, blocks := range []int64{1, 10} {
		s, now := answered(transfer.Options{BlockSize: 8, Window: 1}, blocks*8-1)
		now = now.Add(2 * maxSilence)
		sendAll(s, now)
		for range 3 {
			now = s.Deadline()
			s.Expire(now)
			if done, err := s.Done(); done || sendAll(s, now) != 1 {
				t.Fatalf("%d blocks: done %v, %v, or nothing sent again", blocks, done, err)
			}
		}
	}
}

// If a store needs more time than the timer allows, that must not count as a lost packet, because
// an ACK in the middle of a window would make the peer send blocks again.
func TestSlowStoreIsNotLoss(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	var r Receiver
	r.Answer(now, transfer.Octet, transfer.Options{BlockSize: 8, Window: 4})
	r.AppendReply(now, nil)
	block := func(k int64) []byte { return append(AppendHeader(nil, k, transfer.RolloverZero), make([]byte, 8)...) }
	now = now.Add(time.Millisecond)
	r.Handle(now, block(1))
	if d := r.Deadline(); !d.IsZero() {
		t.Errorf("waits until %v for a store", d)
	}
	now = now.Add(2 * maxSilence)
	r.Stored(now)
	if d := r.Deadline(); !d.After(now) {
		t.Fatalf("deadline %v is already over at %v", d, now)
	}
	r.Expire(now)
	if b := r.AppendReply(now, nil); len(b) > 0 {
		t.Fatalf("sent %x", b)
	}
	// From here on the peer is silent.
	for range 100 {
		if now = r.Deadline(); now.IsZero() {
			break
		}
		r.Expire(now)
		r.AppendReply(now, nil)
	}
	if done, err := r.Done(); !done || !errors.Is(err, transfer.ErrSilent) {
		t.Errorf("done %v, %v", done, err)
	}
	// Nothing more was received since, so this call must not restart the timer.
	r.Stored(now.Add(time.Hour))
	if !r.Deadline().IsZero() {
		t.Error("waits after its end")
	}
}

// A clock may be too coarse to measure a round trip. Even then, actions that are due once per round
// trip must not happen for every packet.
func TestCoarseClock(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s := new(Sender)
	s.Answer(now, transfer.Options{BlockSize: 8, Window: 16}, 1<<20)
	s.AppendReply(now, nil)
	s.Handle(now, appendAck(nil, 0, transfer.RolloverZero))
	acked := int64(0)
	for range 8 { // the peer drops blocks that are out of order
		sendAll(s, now)
		acked++
		s.Handle(now, appendAck(nil, acked, transfer.RolloverZero))
		for sendAll(s, now); s.recovery.holding; sendAll(s, now) {
			now = s.Deadline()
			s.Expire(now)
		}
		acked += 15
		s.Handle(now, appendAck(nil, acked, transfer.RolloverZero))
	}
	sendAll(s, now)
	sent := 0
	for range 100 {
		s.Handle(now, appendAck(nil, acked, transfer.RolloverZero))
		sent += sendAll(s, now)
	}
	if sent > 32 {
		t.Errorf("%d blocks sent for a repeated ACK", sent)
	}
}

// TestClockJumps sets the clock far ahead and back. That may end the transfer, but must never make
// it spin.
func TestClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{-10_000 * time.Hour, -time.Minute, time.Minute, 10_000 * time.Hour} {
		s, now := answered(transfer.Options{BlockSize: 8, Window: 4}, 1<<20)
		sendAll(s, now)
		now = now.Add(jump)
		// This ACK ends a round trip during which the clock has jumped.
		s.Handle(now, appendAck(nil, 4, transfer.RolloverZero))
		sendAll(s, now)
		packets := 0
		for {
			if done, _ := s.Done(); done {
				break
			}
			if d := s.Deadline().Sub(now); d <= 0 || d > maxRTO {
				t.Fatalf("jump of %v: waits for %v", jump, d)
			}
			now = s.Deadline()
			s.Expire(now)
			packets += sendAll(s, now)
		}
		if packets > 200 {
			t.Errorf("jump of %v: %d packets to a silent peer", jump, packets)
		}

		var r Receiver
		r.Request(now, transfer.Request{Name: "f", Offer: transfer.Options{BlockSize: 8}})
		r.AppendReply(now, nil)
		now = now.Add(jump)
		r.Handle(now, appendOptionAck(nil, transfer.Options{BlockSize: 8}))
		packets = 0
		for {
			for len(r.AppendReply(now, nil)) > 0 {
				packets++
			}
			if done, _ := r.Done(); done {
				break
			}
			if d := r.Deadline().Sub(now); d <= 0 || d > maxRTO {
				t.Fatalf("jump of %v: waits for %v", jump, d)
			}
			now = r.Deadline()
			r.Expire(now)
		}
		if packets > 50 {
			t.Errorf("jump of %v: %d packets to a silent peer", jump, packets)
		}
	}
}
