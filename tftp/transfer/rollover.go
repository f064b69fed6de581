package transfer

// A Rollover says which block number follows 65535 on the wire. No RFC specifies it, so peers
// differ; nearly all continue with 0. It is negotiated with the option "rollover", which tftp-hpa
// introduced, or configured for a peer's address.
type Rollover uint8

// The rollovers.
const (
	RolloverDefault Rollover = iota // not negotiated; continues with 0
	RolloverZero                    // 65535, 0, 1, …
	RolloverOne                     // 65535, 1, 2, …

	// RolloverOneUnasked is like RolloverOne, but comes from [Limits], because the peer did not ask
	// for a rollover. It is not confirmed in an OACK.
	RolloverOneUnasked
)

// Next returns the number that follows 65535: 0 or 1.
func (r Rollover) Next() int {
	if r >= RolloverOne {
		return 1
	}
	return 0
}
