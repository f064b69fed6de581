package transfer

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
