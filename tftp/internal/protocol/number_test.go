package protocol

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

func TestWireNumber(t *testing.T) {
	tests := []struct {
		block     int64
		zero, one uint16 // the number on the wire if 0 or 1 follows 65535
	}{
		{0, 0, 0}, // only the acknowledgement that starts a transfer
		{1, 1, 1},
		{65534, 65534, 65534},
		{65535, 65535, 65535},
		{65536, 0, 1},
		{65537, 1, 2},
		{131070, 65534, 65535},
		{131071, 65535, 1},
		{131072, 0, 2},
		{1 << 40, 0, 256},
	}
	for _, test := range tests {
		for roll, want := range map[transfer.Rollover]uint16{transfer.RolloverDefault: test.zero, transfer.RolloverZero: test.zero, transfer.RolloverOne: test.one, transfer.RolloverOneUnasked: test.one} {
			if got := wireNumber(test.block, roll); got != want {
				t.Errorf("wireNumber(%d, %d) = %d, want %d", test.block, roll, got, want)
			}
		}
	}
}

func TestWiden(t *testing.T) {
	tests := []struct {
		limit     int64
		wire      uint16
		zero, one int64
	}{
		{0, 0, 0, 0},
		{0, 1, -1, -1},
		{0, 65535, -1, -1},
		{4, 0, 0, 0},
		{4, 4, 4, 4},
		{4, 5, -1, -1},
		{65535, 0, 0, 0},
		{65535, 65535, 65535, 65535},
		{65536, 0, 65536, 0},
		{65536, 1, 1, 65536},
		{65540, 65535, 65535, 65535},
		{65540, 3, 65539, 65538},
		{65540, 5, 5, 65540},
		{131071, 1, 65537, 131071},
	}
	for _, test := range tests {
		for roll, want := range map[transfer.Rollover]int64{transfer.RolloverDefault: test.zero, transfer.RolloverZero: test.zero, transfer.RolloverOne: test.one, transfer.RolloverOneUnasked: test.one} {
			if got := widen(test.limit, test.wire, roll); got != want {
				t.Errorf("widen(%d, %d, %d) = %d, want %d", test.limit, test.wire, roll, got, want)
			}
		}
	}
}

// TestWidenUndoesWireNumber tries every block and every number near each edge.
func TestWidenUndoesWireNumber(t *testing.T) {
	for _, roll := range []transfer.Rollover{transfer.RolloverDefault, transfer.RolloverZero, transfer.RolloverOne} {
		cycle := int64(65536)
		if roll == transfer.RolloverOne {
			cycle = oneCycle
		}
		for _, edge := range []int64{0, 65535, 131070, 1 << 40} {
			for limit := max(0, edge-4); limit <= edge+8; limit++ {
				for block := max(1, limit-cycle+1); block <= limit; block++ {
					if got := widen(limit, wireNumber(block, roll), roll); got != block {
						t.Fatalf("rollover %d: block %d below %d is widened to %d", roll, block, limit, got)
					}
				}
				for wire := range 65536 {
					got := widen(limit, uint16(wire), roll)
					if got > limit || got < -1 || got >= 0 && wireNumber(got, roll) != uint16(wire) {
						t.Fatalf("rollover %d: number %d below %d is widened to %d", roll, wire, limit, got)
					}
				}
			}
		}
	}
}

// relay drives both machines over a perfect path. All blocks contain zeros, because the files are
// too large for memory.
func relay(t *testing.T, s *Sender, r *Receiver, now time.Time, size int64) {
	t.Helper()
	block := int64(s.BlockSize())
	packet := make([]byte, transfer.HeaderSize+block)
	reply := make([]byte, 0, 600)
	var next int64
	for {
		if reply = s.AppendReply(now, reply[:0]); len(reply) > 0 {
			r.Handle(now, reply)
		}
		for run := s.Due(now); run.Blocks > 0; run = s.Due(now) {
			left := run.Bytes
			for k := run.Block; k < run.Block+int64(run.Blocks); k++ {
				n := min(left, block)
				left -= n
				AppendHeader(packet[:0], k, s.Agreed().Rollover)
				c := r.Handle(now, packet[:transfer.HeaderSize+n])
				if c.Offset != next || int64(len(c.Data)) != n || c.Last != (next+n == size && n < block) {
					t.Fatalf("block %d: got %d bytes at %d, last %v", k, len(c.Data), c.Offset, c.Last)
				}
				next += n
				r.Stored(now)
			}
			s.Sent(now, run.Blocks)
		}
		now = now.Add(time.Millisecond)
		if reply = r.AppendReply(now, reply[:0]); len(reply) == 0 {
			break
		}
		s.Handle(now, reply)
	}
	if done, err := s.Done(); !done || err != nil {
		t.Fatalf("sender: done %v, %v", done, err)
	}
	if done, err := r.Done(); !done || err != nil || next != size || r.Received() != size || s.Acked() != size {
		t.Fatalf("receiver: done %v, %v, %d of %d bytes; acknowledged %d", done, err, r.Received(), size, s.Acked())
	}
	if n := s.Stats().Resent + r.Stats().Resent + s.Stats().Strays + r.Stats().Strays; n > 0 {
		t.Errorf("%d packets sent again or astray", n)
	}
}

// TestBeyondTheNumbers transfers files with more than twice as many blocks as there are block
// numbers, and with more bytes than 32 bits can count.
func TestBeyondTheNumbers(t *testing.T) {
	for _, roll := range []transfer.Rollover{transfer.RolloverDefault, transfer.RolloverZero, transfer.RolloverOne} {
		for _, o := range []transfer.Options{
			{BlockSize: transfer.MinBlockSize, Window: 1},
			{BlockSize: transfer.MaxBlockSize, Window: 64},
			{BlockSize: transfer.MaxBlockSize, Window: safeWindow},
		} {
			o.Rollover = roll
			size := int64(o.BlockSize)*(2*65536+10) + 5
			if o.BlockSize == transfer.MaxBlockSize && size <= 1<<32 {
				t.Fatal("the file is too small for what is tested")
			}
			var s Sender
			var r Receiver
			now := time.Unix(1_000_000, 0)
			s.Answer(now, o, size)
			r.Request(now, transfer.Request{Name: "f", Offer: o})
			r.AppendReply(now, nil)
			relay(t, &s, &r, now, size)
		}
	}
}

// TestOldBlocksAreNotNew makes a peer with the largest window lose an ACK and send its whole window
// again. Its blocks must not be taken for new ones.
func TestOldBlocksAreNotNew(t *testing.T) {
	for _, roll := range []transfer.Rollover{transfer.RolloverDefault, transfer.RolloverZero, transfer.RolloverOne} {
		now := time.Unix(1_000_000, 0)
		q := transfer.Request{Write: true, Name: "f", Offer: transfer.Options{BlockSize: 8, Window: transfer.MaxWindow, Rollover: roll}}
		agreed := Agree(transfer.Limits{}, q, -1)
		var r Receiver
		r.Answer(now, transfer.Octet, agreed)
		r.AppendReply(now, nil)
		packet := make([]byte, transfer.HeaderSize+8)
		for again := range 2 {
			for k := int64(1); k <= int64(agreed.Window); k++ {
				now = now.Add(time.Microsecond)
				AppendHeader(packet[:0], k, roll)
				c := r.Handle(now, packet)
				if (len(c.Data) == 0) != (again == 1) {
					t.Fatalf("rollover %d: block %d, time %d: %d bytes at %d", roll, k, again+1, len(c.Data), c.Offset)
				}
				r.Stored(now)
			}
			if b := r.AppendReply(now, nil); again == 0 && binary.BigEndian.Uint16(b[2:]) != wireNumber(int64(agreed.Window), roll) {
				t.Fatalf("rollover %d: window answered by %x", roll, b)
			}
		}

		// The same holds for a Sender: a repeated ACK is not the ACK of a whole window.
		for _, client := range []bool{false, true} {
			var s Sender
			if client {
				s.Request(now, q, 1<<30)
				s.Handle(now, appendOptionAck(nil, mustParse(s.AppendReply(now, nil)).Offer))
			} else {
				s.Answer(now, agreed, 1<<30)
				s.AppendReply(now, nil)
				s.Handle(now, appendAck(nil, 0, roll))
			}
			var acked int64
			for range 5 {
				run := s.Due(now)
				s.Sent(now, run.Blocks)
				acked = run.Block
				s.Handle(now, appendAck(nil, acked, roll))
				now = now.Add(time.Second)
				for run := s.Due(now); run.Blocks > 0; run = s.Due(now) {
					s.Sent(now, run.Blocks)
				}
				s.Handle(now, appendAck(nil, acked, roll))
				if s.Acked() != acked*8 {
					t.Fatalf("rollover %d: an ACK of block %d, twice, counts for %d", roll, acked, s.Acked()/8)
				}
				s.Handle(now, appendAck(nil, s.next-1, roll))
			}
		}
	}
}
