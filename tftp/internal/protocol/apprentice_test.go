package protocol

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/haul-project/haul/tftp/transfer"
)

// The Sorcerer's Apprentice bug (RFC 1123 §4.2.3.1): if both sides answer each packet, one
// duplicated packet duplicates everything that follows. The peers in these tests have the bug, and
// our machines must not multiply packets with them.

const (
	apprenticeBlocks = 400
	apprenticeTrip   = 5 * time.Millisecond
)

// An apprentice is the path between one of our machines and a peer that answers every packet. It
// duplicates one packet.
type apprentice struct {
	now     time.Time
	queue   [][]byte // packets for our machine, in order
	doubled bool
}

// toUs puts a packet on the path. It sends one packet in the middle of the transfer twice.
func (a *apprentice) toUs(b []byte) {
	a.queue = append(a.queue, b)
	if binary.BigEndian.Uint16(b[2:]) == 12 && !a.doubled {
		a.doubled = true
		a.queue = append(a.queue, b)
	}
}

// This client answers each DATA with an ACK of all blocks so far, also in windows.
func TestSenderAndApprentice(t *testing.T) {
	for _, window := range []int64{1, 4} {
		a := apprentice{now: time.Unix(1_000_000, 0)}
		var s Sender
		s.Answer(a.now, transfer.Options{BlockSize: 8, Window: int(window)}, apprenticeBlocks*8-1)
		s.AppendReply(a.now, nil)
		a.toUs([]byte{0, 4, 0, 0})
		got, sent := int64(0), int64(0)
		for {
			if done, err := s.Done(); done {
				if err != nil || !a.doubled {
					t.Errorf("window %d: %v", window, err)
				}
				break
			}
			if sent > apprenticeBlocks+4*window {
				t.Fatalf("window %d: %d blocks sent where %d are needed", window, sent, apprenticeBlocks)
			}
			a.now = a.now.Add(apprenticeTrip)
			batch := a.queue
			a.queue = nil
			if len(batch) == 0 {
				a.now = s.Deadline()
				s.Expire(a.now)
			}
			for i := range max(1, len(batch)) {
				if len(batch) > 0 {
					s.Handle(a.now, batch[i])
				}
				for run := s.Due(a.now); run.Blocks > 0; run = s.Due(a.now) {
					for k := run.Block; k < run.Block+int64(run.Blocks); k++ {
						sent++
						if k == got+1 {
							got++
						} else if k > got {
							continue // the block is out of order, so it is dropped without an ACK
						}
						if window == 1 || got%window == 0 || got == apprenticeBlocks || k <= got-window {
							a.toUs(appendAck(nil, k, transfer.RolloverZero))
						}
					}
					s.Sent(a.now, run.Blocks)
				}
			}
		}
		t.Logf("window %d: %d blocks sent where %d are needed", window, sent, apprenticeBlocks)
	}
}

// This server answers each ACK with DATA: it sends the next window again.
func TestReceiverAndApprentice(t *testing.T) {
	for _, window := range []int64{1, 4} {
		a := apprentice{now: time.Unix(1_000_000, 0)}
		var r Receiver
		o := transfer.Options{BlockSize: 8, Window: int(window)}
		r.Request(a.now, transfer.Request{Name: "f", Offer: o})
		r.AppendReply(a.now, nil)
		a.toUs(appendOptionAck(nil, o))
		acks, data := int64(0), int64(0)
		needed := apprenticeBlocks/window + 1
		for len(a.queue) > 0 {
			if acks > needed+4 || data > apprenticeBlocks+4*window {
				t.Fatalf("window %d: %d ACKs sent where %d are needed, and %d blocks came", window, acks, needed, data)
			}
			a.now = a.now.Add(apprenticeTrip)
			batch := a.queue
			a.queue = nil
			for _, b := range batch {
				r.Handle(a.now, b)
				r.Stored(a.now)
				ack := r.AppendReply(a.now, nil)
				if len(ack) == 0 {
					continue
				}
				acks++
				first := widen(r.acked, binary.BigEndian.Uint16(ack[2:]), transfer.RolloverZero) + 1
				for k := first; k < first+window && k <= apprenticeBlocks; k++ {
					size := 8
					if k == apprenticeBlocks {
						size = 7
					}
					a.toUs(append(AppendHeader(nil, k, transfer.RolloverZero), make([]byte, size)...))
					data++
				}
			}
		}
		if done, err := r.Done(); !done || err != nil || !a.doubled {
			t.Errorf("window %d: done %v, %v", window, done, err)
		}
		t.Logf("window %d: %d ACKs sent where %d are needed, and %d blocks came", window, acks, needed, data)
	}
}
