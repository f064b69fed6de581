package protocol

import "github.com/haul-project/haul/tftp/transfer"

// Block numbers have 16 bits on the wire. In this package they have 63 bits and never wrap: a
// number is widened when a packet arrives and narrowed when a packet is sent.

// oneCycle is the number of different block numbers if 1 follows 65535.
const oneCycle = 65535

// wireNumber returns the block's number on the wire.
func wireNumber(block int64, roll transfer.Rollover) uint16 {
	if roll >= transfer.RolloverOne && block > 0 {
		return uint16((block-1)%oneCycle + 1)
	}
	return uint16(block)
}

// widen returns the greatest block up to limit that has the given number on the wire, or -1 if
// no such block exists.
func widen(limit int64, wire uint16, roll transfer.Rollover) int64 {
	if roll < transfer.RolloverOne {
		return max(-1, limit-int64(uint16(limit)-wire))
	}
	if wire == 0 {
		return min(limit, 0) // only the acknowledgement that starts a transfer has this number
	}
	back := (int64(wireNumber(limit, roll)) - int64(wire) + oneCycle) % oneCycle
	if limit-back < 1 {
		return -1
	}
	return limit - back
}
