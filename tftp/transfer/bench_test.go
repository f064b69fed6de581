package transfer

import (
	"testing"
	"time"
)

// The cost of a machine to its driver for each block of a transfer in
// lock-step: all the calls of one turn, with a clock that has a monotonic
// reading as a driver's has, but without reading it.

func BenchmarkLockStepSender(b *testing.B) {
	now := time.Now()
	s := new(Sender)
	s.Answer(now, Options{BlockSize: 512}, 1<<50)
	reply := make([]byte, 0, 64)
	reply = s.AppendReply(now, reply)
	ack := appendAck(nil, 0, RolloverZero)
	s.Handle(now, ack)
	for b.Loop() {
		for run := s.Due(now); run.Blocks > 0; run = s.Due(now) {
			AppendHeader(ack[:0], run.Block, RolloverZero)
			s.Sent(now, run.Blocks)
		}
		if s.Deadline().IsZero() {
			b.Fatal("waits for nothing")
		}
		now = now.Add(100 * time.Microsecond)
		ack = appendAck(ack[:0], s.next-1, RolloverZero)
		s.Handle(now, ack)
		if reply = s.AppendReply(now, reply[:0]); len(reply) > 0 {
			b.Fatal("a reply")
		}
		if done, _ := s.Done(); done {
			b.Fatal("done")
		}
	}
}

func BenchmarkLockStepReceiver(b *testing.B) {
	now := time.Now()
	r := new(Receiver)
	r.Answer(now, Octet, Options{BlockSize: 512})
	ack := r.AppendReply(now, make([]byte, 0, 64))
	packet := make([]byte, HeaderSize+512)
	for b.Loop() {
		now = now.Add(100 * time.Microsecond)
		AppendHeader(packet[:0], r.got+1, RolloverZero)
		if c := r.Handle(now, packet); len(c.Data) == 0 {
			b.Fatal("no data")
		}
		r.Stored(now)
		if ack = r.AppendReply(now, ack[:0]); len(ack) == 0 {
			b.Fatal("no ACK")
		}
		if done, _ := r.Done(); done || r.Deadline().IsZero() {
			b.Fatal("waits for nothing")
		}
	}
}
