package transfer

import (
	"errors"
	"testing"
	"time"
)

// drain sends all that is due, and returns how many blocks that was.
func drain(s *Sender, now time.Time) (blocks int) {
	s.AppendReply(now, nil)
	for run := s.Due(now); run.Blocks > 0; run = s.Due(now) {
		s.Sent(now, run.Blocks)
		blocks += run.Blocks
	}
	return blocks
}

func ackPacket(block uint16) []byte { return []byte{0, 4, byte(block >> 8), byte(block)} }

// A forged request and a forged ACK 0 must not bring a window upon somebody
// time and again.
func TestForgedAckZero(t *testing.T) {
	now := time.Unix(1000, 0)
	const window = 64
	var s Sender
	s.Answer(now, Options{BlockSize: 1432, Window: window}, 100_000_000)
	drain(&s, now)
	s.Handle(now, ackPacket(0))
	sent := drain(&s, now)
	for {
		if done, err := s.Done(); done {
			if !errors.Is(err, ErrSilent) {
				t.Errorf("ended by %v", err)
			}
			break
		}
		now = s.Deadline()
		s.Expire(now)
		sent += drain(&s, now)
		s.Handle(now, ackPacket(0)) // the forger goes on for a while
		sent += drain(&s, now)
		if now.After(time.Unix(1010, 0)) {
			break
		}
	}
	for {
		if done, _ := s.Done(); done {
			break
		}
		now = s.Deadline()
		s.Expire(now)
		sent += drain(&s, now)
	}
	if most := 2*window + 40; sent > most {
		t.Errorf("%d blocks for forged packets, more than %d", sent, most)
	}
}

// A peer that speaks now and then without moving holds no machine for ever.
func TestStalledPeer(t *testing.T) {
	const every = 7 * time.Second
	t.Run("sender", func(t *testing.T) {
		now := time.Unix(1000, 0)
		var s Sender
		s.Answer(now, Options{Window: 4}, 100_000)
		drain(&s, now)
		s.Handle(now, ackPacket(0))
		began := now
		for !s.done {
			drain(&s, now)
			for next := now.Add(every); now.Before(next); now = now.Add(time.Second) {
				s.Expire(now)
				drain(&s, now)
			}
			s.Handle(now, ackPacket(0))
			if now.Sub(began) > maxStall+time.Minute {
				t.Fatal("still not ended")
			}
		}
		if !errors.Is(s.err, ErrStalled) || now.Sub(began) < maxStall {
			t.Errorf("ended after %v: %v", now.Sub(began), s.err)
		}
		if b := s.AppendReply(now, nil); OpcodeOf(b) != ErrorPacket {
			t.Errorf("the peer is told %x", b)
		}
	})
	t.Run("receiver", func(t *testing.T) {
		now := time.Unix(1000, 0)
		var r Receiver
		r.Answer(now, Octet, Options{})
		r.AppendReply(now, nil)
		block := append([]byte{0, 3, 0, 1}, make([]byte, 512)...)
		r.Handle(now, block)
		r.Stored(now)
		began := now
		for !r.done {
			r.AppendReply(now, nil)
			now = now.Add(every)
			r.Expire(now)
			r.Handle(now, block)
			if now.Sub(began) > maxStall+time.Minute {
				t.Fatal("still not ended")
			}
		}
		if !errors.Is(r.err, ErrStalled) || now.Sub(began) < maxStall {
			t.Errorf("ended after %v: %v", now.Sub(began), r.err)
		}
	})
}

// After a pause of the whole process the peer gets the chance to speak before
// it counts as silent.
func TestPausedProcess(t *testing.T) {
	now := time.Unix(1000, 0)
	var s Sender
	s.Answer(now, Options{}, 5000)
	drain(&s, now)
	s.Handle(now.Add(time.Millisecond), ackPacket(1))
	drain(&s, now.Add(time.Millisecond))
	var r Receiver
	r.Answer(now, Octet, Options{})
	r.AppendReply(now, nil)
	r.Handle(now, append([]byte{0, 3, 0, 1}, make([]byte, 512)...))
	r.Stored(now)
	r.AppendReply(now, nil)

	now = now.Add(time.Hour)
	s.Expire(now)
	r.Expire(now)
	if s.done || r.done {
		t.Fatalf("given up after a pause: sender %v, receiver %v", s.err, r.err)
	}
	if drain(&s, now) == 0 || len(r.AppendReply(now, nil)) == 0 {
		t.Error("nothing sent after a pause")
	}
}

// A window whose acknowledgement never comes is the end of a read that was
// answered whole, and says so.
func TestUnconfirmedWindow(t *testing.T) {
	now := time.Unix(1000, 0)
	var s Sender
	s.Answer(now, Options{Window: 4}, 2000) // four blocks: one window
	drain(&s, now)
	s.Handle(now, ackPacket(0))
	drain(&s, now)
	for !s.done {
		now = s.Deadline()
		s.Expire(now)
		drain(&s, now)
	}
	if s.err != nil || !s.Stats().Unconfirmed {
		t.Errorf("ended by %v, unconfirmed %v", s.err, s.Stats().Unconfirmed)
	}
	if waited := now.Sub(time.Unix(1000, 0)); waited < finalSilence || waited > 3*finalSilence {
		t.Errorf("after %v", waited)
	}
}
