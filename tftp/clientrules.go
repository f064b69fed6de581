package tftp

import (
	"net/netip"

	"github.com/haul-project/haul/tftp/transfer"
)

// A ClientRule changes the options that some clients get.
type ClientRule struct {
	Networks []netip.Prefix // the clients' networks; empty means all clients

	// Refuse lists options that the server ignores, as if it did not know them. All
	// rules for a client apply.
	Refuse transfer.OptionSet

	// Rollover is the block number after 65535 for clients that do not negotiate it: RolloverZero
	// or RolloverOne. The first rule for a client that sets it applies; without such a rule,
	// Limits.Rollover applies.
	Rollover transfer.Rollover
}

// refused returns the options that the server ignores from a client.
func (c *Config) refused(client netip.Addr) (set transfer.OptionSet) {
	for _, r := range c.Rules {
		if isFor(r.Networks, client) {
			set |= r.Refuse
		}
	}
	return set
}

// rolloverOf returns the rollover that a rule sets for a client.
func (c *Config) rolloverOf(client netip.Addr) transfer.Rollover {
	for _, r := range c.Rules {
		if r.Rollover != transfer.RolloverDefault && isFor(r.Networks, client) {
			return r.Rollover
		}
	}
	return transfer.RolloverDefault
}

// isFor reports whether a rule with these networks applies to a client.
func isFor(networks []netip.Prefix, client netip.Addr) bool {
	return len(networks) == 0 || inAny(networks, client.Unmap().WithZone("")) // no network has a zone
}
