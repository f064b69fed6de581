package protocol

import (
	"errors"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// drain sends all blocks that are due, and returns their number.
func drain(s *Sender, now time.Time) (blocks int) {
	s.AppendReply(now, nil)
	for run := s.Due(now); run.Blocks > 0; run = s.Due(now) {
		s.Sent(now, run.Blocks)
		blocks += run.Blocks
	}
	return blocks
}

func ackPacket(block uint16) []byte { return []byte{0, 4, byte(block >> 8), byte(block)} }

// A forged request and a forged ACK 0 must not make us send a window to a third party repeatedly.
func TestForgedAckZero(t *testing.T) {
	now := time.Unix(1000, 0)
	const window = 64
	var s Sender
	s.Answer(now, transfer.Options{BlockSize: 1432, Window: window}, 100_000_000)
	drain(&s, now)
	s.Handle(now, ackPacket(0))
	sent := drain(&s, now)
	for {
		if done, err := s.Done(); done {
			if !errors.Is(err, transfer.ErrSilent) {
				t.Errorf("ended by %v", err)
			}
			break
		}
		now = s.Deadline()
		s.Expire(now)
		sent += drain(&s, now)
		s.Handle(now, ackPacket(0)) // the forger continues for a while
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

// A peer that sends packets now and then without progress does not hold a machine forever.
func TestStalledPeer(t *testing.T) {
	const every = 7 * time.Second
	t.Run("sender", func(t *testing.T) {
		now := time.Unix(1000, 0)
		var s Sender
		s.Answer(now, transfer.Options{Window: 4}, 100_000)
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
		if !errors.Is(s.err, transfer.ErrStalled) || now.Sub(began) < maxStall {
			t.Errorf("ended after %v: %v", now.Sub(began), s.err)
		}
		if b := s.AppendReply(now, nil); transfer.OpcodeOf(b) != transfer.ErrorPacket {
			t.Errorf("the peer gets %x", b)
		}
	})
	t.Run("receiver", func(t *testing.T) {
		now := time.Unix(1000, 0)
		var r Receiver
		r.Answer(now, transfer.Octet, transfer.Options{})
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
		if !errors.Is(r.err, transfer.ErrStalled) || now.Sub(began) < maxStall {
			t.Errorf("ended after %v: %v", now.Sub(began), r.err)
		}
	})
}

// A slowPeer is one end of a lock-step transfer that moves a block only now and then; the other end
// is the machine.
type slowPeer struct {
	now  time.Time
	move func(now time.Time) // transfers the next block
	idle func(now time.Time) // informs the machine that time has passed
	done func() (ended bool, err error)
}

func slowReader(o transfer.Options) *slowPeer {
	p, s, block := &slowPeer{now: time.Unix(1000, 0)}, &Sender{}, uint16(0)
	s.Answer(p.now, o, 1<<40)
	drain(s, p.now)
	s.Handle(p.now, ackPacket(0))
	drain(s, p.now)
	p.move = func(now time.Time) {
		block++
		s.Handle(now, ackPacket(block))
		drain(s, now)
	}
	p.idle = func(now time.Time) {
		s.Expire(now)
		drain(s, now)
	}
	p.done = s.Done
	return p
}

func slowWriter(o transfer.Options) *slowPeer {
	p, r, block := &slowPeer{now: time.Unix(1000, 0)}, &Receiver{}, uint16(0)
	r.Answer(p.now, transfer.Octet, o)
	r.AppendReply(p.now, nil)
	p.move = func(now time.Time) {
		block++
		r.Handle(now, append([]byte{0, 3, byte(block >> 8), byte(block)}, make([]byte, r.BlockSize())...))
		r.Stored(now)
		r.AppendReply(now, nil)
	}
	p.idle = func(now time.Time) {
		r.Expire(now)
		r.AppendReply(now, nil)
	}
	p.done = r.Done
	p.move(p.now)
	return p
}

// lasts transfers a block at regular intervals, and returns how long the transfer lasts, up to the
// limit.
func (p *slowPeer) lasts(every, limit time.Duration) (time.Duration, error) {
	began := p.now
	for p.now.Sub(began) < limit {
		for next := p.now.Add(every); p.now.Before(next); {
			p.now = p.now.Add(time.Second)
			p.idle(p.now)
		}
		p.move(p.now)
		if ended, err := p.done(); ended {
			return p.now.Sub(began), err
		}
	}
	return limit, nil
}

// The lowest allowed average rate is a block of 512 bytes or less in 30 s. The longest negotiable
// timeout makes no difference, and larger blocks get proportionally more time.
func TestLeastRate(t *testing.T) {
	const day = 24 * time.Hour
	for name, begin := range map[string]func(transfer.Options) *slowPeer{"reader": slowReader, "writer": slowWriter} {
		for _, test := range []struct {
			o     transfer.Options
			every time.Duration
			most  time.Duration // day means that the transfer does not end
		}{
			{transfer.Options{}, 28 * time.Second, day},
			{transfer.Options{BlockSize: 8, Timeout: 255 * time.Second}, 30 * time.Second, day},
			{transfer.Options{BlockSize: 1024, Timeout: 255 * time.Second}, 60 * time.Second, day},
			{transfer.Options{BlockSize: 65464, Timeout: 255 * time.Second}, 280 * time.Second, day},
			{transfer.Options{BlockSize: 8, Timeout: 255 * time.Second}, 60 * time.Second, 10*time.Minute + time.Second},
			{transfer.Options{Timeout: 255 * time.Second}, 280 * time.Second, 15 * time.Minute},
			{transfer.Options{BlockSize: 1024, Timeout: 255 * time.Second}, 100 * time.Second, 20 * time.Minute},
		} {
			took, err := begin(test.o).lasts(test.every, day)
			if test.most == day && took < day || took > test.most || took < day && !errors.Is(err, transfer.ErrStalled) {
				t.Errorf("%s with %+v, a block every %v: %v, %v", name, test.o, test.every, took, err)
			}
		}
		p := begin(transfer.Options{Timeout: 255 * time.Second})
		if took, err := p.lasts(time.Second, time.Hour); took < time.Hour {
			t.Errorf("%s: a fast start took %v: %v", name, took, err)
		}
		if took, err := p.lasts(280*time.Second, day); took > 15*time.Minute || !errors.Is(err, transfer.ErrStalled) {
			t.Errorf("%s: after a fast start it lasts %v: %v", name, took, err)
		}
	}
}

// The time that the store takes is not counted against the peer, even if the peer sends packets
// meanwhile.
func TestLeastRateExcusesTheStore(t *testing.T) {
	now := time.Unix(1000, 0)
	var s Sender
	s.Answer(now, transfer.Options{}, 1<<20)
	var r Receiver
	r.Answer(now, transfer.Octet, transfer.Options{})
	r.AppendReply(now, nil)
	for block := range uint16(100) {
		drain(&s, now)
		s.Handle(now, ackPacket(block+1))
		r.Handle(now, append([]byte{0, 3, 0, byte(block + 1)}, make([]byte, 512)...))
		for range 20 {
			now = now.Add(5 * time.Second)
			s.Handle(now, ackPacket(block+1))
			r.Handle(now, append([]byte{0, 3, 0, byte(block + 1)}, make([]byte, 512)...))
		}
		r.Stored(now)
		r.AppendReply(now, nil)
		if s.done || r.done {
			t.Fatalf("ended after %d blocks by %v, %v", block+1, s.err, r.err)
		}
	}
}

// After a pause of the whole process, the peer gets a chance to answer before it counts as silent.
func TestPausedProcess(t *testing.T) {
	now := time.Unix(1000, 0)
	var s Sender
	s.Answer(now, transfer.Options{}, 5000)
	drain(&s, now)
	s.Handle(now.Add(time.Millisecond), ackPacket(1))
	drain(&s, now.Add(time.Millisecond))
	var r Receiver
	r.Answer(now, transfer.Octet, transfer.Options{})
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

// If the acknowledgement of the last window does not arrive, the read counts as answered
// completely, and Stats.Unconfirmed is set.
func TestUnconfirmedWindow(t *testing.T) {
	now := time.Unix(1000, 0)
	var s Sender
	s.Answer(now, transfer.Options{Window: 4}, 2000) // four blocks, which are one window
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
