package tftp

import (
	"net/netip"

	"github.com/haul-project/haul/tftp/transfer"
)

// A Refusal has options that are not agreed on with some clients, as if the server did
// not know them.
type Refusal struct {
	Options  transfer.OptionSet
	Networks []netip.Prefix // of the clients; empty means all
}

// A RolloverRule says what some clients expect behind block 65535, but do not ask for.
type RolloverRule struct {
	Rollover transfer.Rollover
	Networks []netip.Prefix // of the clients; empty means all
}

// refused returns the options that a client does not get: those of all rules for it.
func (s *Server) refused(client netip.Addr) (set transfer.OptionSet) {
	for _, r := range s.Refuse {
		if isFor(r.Networks, client) {
			set |= r.Options
		}
	}
	return set
}

// rolloverOf returns the rollover of the first rule for a client.
func (s *Server) rolloverOf(client netip.Addr) transfer.Rollover {
	for _, r := range s.Rollover {
		if isFor(r.Networks, client) {
			return r.Rollover
		}
	}
	return transfer.RolloverDefault
}

// isFor reports whether a rule with these networks is for a client.
func isFor(networks []netip.Prefix, client netip.Addr) bool {
	return len(networks) == 0 || inAny(networks, client.Unmap().WithZone("")) // no network has a zone
}
