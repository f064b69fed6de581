package transfer

// Block numbers have 16 bits on the wire. Here they have 63 bits and never wrap: they are widened
// when a packet arrives and narrowed when one is sent.

// A Rollover says which number follows 65535 on the wire. No RFC says, so peers differ; nearly all
// continue with 0. It is negotiated by the option "rollover" that tftp-hpa introduced, or
// configured for a peer's address.
type Rollover uint8

// The rollovers.
const (
	RolloverDefault Rollover = iota // not negotiated; continues with 0
	RolloverZero                    // 65535, 0, 1, …
	RolloverOne                     // 65535, 1, 2, …

	// RolloverOneUnasked is the RolloverOne of [Limits] for a peer that did not ask. It is not
	// confirmed in an OACK.
	RolloverOneUnasked
)

// Next returns the number that follows 65535: 0 or 1.
func (r Rollover) Next() int {
	if r >= RolloverOne {
		return 1
	}
	return 0
}

// oneCycle is the number of blocks with different numbers if 1 follows 65535.
const oneCycle = 65535

// wireNumber narrows a block number.
func wireNumber(block int64, roll Rollover) uint16 {
	if roll >= RolloverOne && block > 0 {
		return uint16((block-1)%oneCycle + 1)
	}
	return uint16(block)
}

// widen returns the greatest block up to limit that has the given number on the wire, or -1 if
// there is none.
func widen(limit int64, wire uint16, roll Rollover) int64 {
	if roll < RolloverOne {
		return max(-1, limit-int64(uint16(limit)-wire))
	}
	if wire == 0 {
		return min(limit, 0) // only the acknowledgement that starts a transfer
	}
	back := (int64(wireNumber(limit, roll)) - int64(wire) + oneCycle) % oneCycle
	if limit-back < 1 {
		return -1
	}
	return limit - back
}
