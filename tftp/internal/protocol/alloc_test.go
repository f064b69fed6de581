package protocol

import (
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// The machines allocate nothing while data flows, and nothing for another transfer in the same
// memory.

func TestSenderAllocatesNothing(t *testing.T) {
	for _, window := range []int{1, 16} {
		now := time.Unix(1_000_000, 0)
		o := transfer.Options{BlockSize: 1432, Window: window, HasSize: true, Size: 1 << 40}
		s := new(Sender)
		buf := make([]byte, 0, 64)
		begin := func() {
			s.Answer(now, o, 1<<40)
			buf = s.AppendReply(now, buf[:0])
			buf = appendAck(buf[:0], 0, transfer.RolloverZero)
			s.Handle(now, buf)
		}
		send := func() {
			for run := s.Due(now); run.Blocks > 0; run = s.Due(now) {
				for k := range run.Blocks {
					buf = AppendHeader(buf[:0], run.Block+int64(k), transfer.RolloverZero)
				}
				s.Sent(now, run.Blocks)
			}
		}
		none(t, "Answer", begin)
		begin()
		none(t, "a window", func() {
			send()
			now = now.Add(time.Millisecond)
			buf = appendAck(buf[:0], s.next-1, transfer.RolloverZero)
			s.Handle(now, buf)
			buf = s.AppendReply(now, buf[:0])
		})
		none(t, "a loss", func() {
			send()
			now = now.Add(time.Millisecond)
			buf = appendAck(buf[:0], s.acked, transfer.RolloverZero)
			s.Handle(now, buf)
			send()
			now = s.Deadline()
			s.Expire(now)
			send()
			buf = appendAck(buf[:0], s.next-1, transfer.RolloverZero)
			s.Handle(now, buf)
		})
	}
}

func TestReceiverAllocatesNothing(t *testing.T) {
	for _, window := range []int{1, 16, 300} {
		now := time.Unix(1_000_000, 0)
		o := transfer.Options{BlockSize: 1432, Window: window}
		r := new(Receiver)
		buf := make([]byte, 0, 64)
		packet := make([]byte, transfer.HeaderSize+1432)
		begin := func() {
			r.Answer(now, transfer.Octet, o)
			buf = r.AppendReply(now, buf[:0])
		}
		take := func(k int64) {
			AppendHeader(packet[:0], k, transfer.RolloverZero)
			r.Handle(now, packet)
			r.Stored(now)
			buf = r.AppendReply(now, buf[:0])
		}
		begin() // the bitmap of a large window is allocated here, once
		none(t, "Answer", begin)
		none(t, "a window", func() {
			now = now.Add(time.Millisecond)
			for range window {
				take(r.got + 1)
			}
		})
		none(t, "a loss", func() {
			now = now.Add(time.Millisecond)
			first := r.got + 1
			for k := range int64(window) {
				if k > 0 {
					take(first + k)
				}
			}
			now = r.Deadline()
			r.Expire(now)
			buf = r.AppendReply(now, buf[:0])
			take(first)
			take(first)
		})
		if want := int64(window); r.got < want {
			t.Errorf("window %d: only %d blocks came", window, r.got)
		}
	}
}

func none(t *testing.T, what string, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(100, f); n > 0 {
		t.Errorf("%s: %v allocations", what, n)
	}
}
