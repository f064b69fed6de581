package tftp

import (
	"net/netip"

	"github.com/haul-project/haul/tftp/transfer"
)

// A ClientRule changes how the server answers some clients.
type ClientRule struct {
	Networks []netip.Prefix // the clients' networks; empty means all clients

	// Refuse lists options that the server ignores, as if it did not support them. If several rules
	// apply to a client, the server ignores the options of all these rules.
	Refuse transfer.OptionSet

	// Rollover sets the block number after 65535 for clients that do not negotiate it: RolloverZero
	// or RolloverOne. If several rules for a client set it, the first of them applies. If no rule
	// sets it, Limits.Rollover applies.
	Rollover transfer.Rollover
}

// refused returns the options that the server ignores in requests from a client.
func (c *Config) refused(client netip.Addr) (set transfer.OptionSet) {
	for _, r := range c.Rules {
		if isFor(r.Networks, client) {
			set |= r.Refuse
		}
	}
	return set
}

// rolloverOf returns the rollover that the rules set for a client.
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
	// Contains requires an address without a zone.
	return len(networks) == 0 || inAny(networks, client.Unmap().WithZone(""))
}
