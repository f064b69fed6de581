package protocol

import (
	"strconv"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// These benchmarks measure what a machine costs its driver for each window of a transfer: all calls
// of the driver's turns. The times have a monotonic reading, like those of a driver, but the cost
// of reading the clock is not included. A window of one block is lock-step.

var benchWindows = []int{1, 64}

func BenchmarkSender(b *testing.B) {
	for _, window := range benchWindows {
		b.Run(strconv.Itoa(window), func(b *testing.B) { benchSender(b, window) })
	}
}

func benchSender(b *testing.B, window int) {
	now := time.Now()
	s := new(Sender)
	s.Answer(now, transfer.Options{BlockSize: 512, Window: window}, 1<<50)
	reply := make([]byte, 0, 64)
	reply = s.AppendReply(now, reply)
	ack := appendAck(nil, 0, transfer.RolloverZero)
	s.Handle(now, ack)
	for b.Loop() {
		for run := s.Due(now); run.Blocks > 0; run = s.Due(now) {
			for k := range run.Blocks {
				AppendHeader(ack[:0], run.Block+int64(k), transfer.RolloverZero)
			}
			s.Sent(now, run.Blocks)
		}
		if s.Deadline().IsZero() {
			b.Fatal("waits for nothing")
		}
		now = now.Add(100 * time.Microsecond)
		ack = appendAck(ack[:0], s.next-1, transfer.RolloverZero)
		s.Handle(now, ack)
		if reply = s.AppendReply(now, reply[:0]); len(reply) > 0 {
			b.Fatal("a reply")
		}
		if done, _ := s.Done(); done {
			b.Fatal("done")
		}
	}
}

func BenchmarkReceiver(b *testing.B) {
	for _, window := range benchWindows {
		b.Run(strconv.Itoa(window), func(b *testing.B) { benchReceiver(b, window) })
	}
}

func benchReceiver(b *testing.B, window int) {
	now := time.Now()
	r := new(Receiver)
	r.Answer(now, transfer.Octet, transfer.Options{BlockSize: 512, Window: window})
	ack := r.AppendReply(now, make([]byte, 0, 64))
	packet := make([]byte, transfer.HeaderSize+512)
	for b.Loop() {
		now = now.Add(100 * time.Microsecond)
		for range window {
			AppendHeader(packet[:0], r.got+1, transfer.RolloverZero)
			if c := r.Handle(now, packet); len(c.Data) == 0 {
				b.Fatal("no data")
			}
			r.Stored(now)
			ack = r.AppendReply(now, ack[:0])
		}
		if len(ack) == 0 {
			b.Fatal("no ACK")
		}
		if done, _ := r.Done(); done || r.Deadline().IsZero() {
			b.Fatal("waits for nothing")
		}
	}
}

// BenchmarkRequest measures a request with options, and its OACK.
func BenchmarkRequest(b *testing.B) {
	now := time.Now()
	packet := AppendRequest(nil, transfer.Request{Name: "boot/image", Offer: transfer.Options{BlockSize: 1428, Window: 16, HasSize: true}})
	s := new(Sender)
	reply := make([]byte, 0, 64)
	for b.Loop() {
		q, err := ParseRequest(packet)
		if err != nil {
			b.Fatal(err)
		}
		s.Answer(now, Agree(transfer.Limits{}, q, 1<<20), 1<<20)
		if reply = s.AppendReply(now, reply[:0]); transfer.OpcodeOf(reply) != transfer.OptionAck {
			b.Fatal("no OACK")
		}
	}
}
