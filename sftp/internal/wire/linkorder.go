package wire

import (
	"slices"
	"strings"
)

// A SYMLINK has two names, and peers disagree on which comes first. The draft
// has the link itself there (draft-ietf-secsh-filexfer-02, section 6.10);
// OpenSSH has what the link says (PROTOCOL, section 4.1), and most others have
// it from there, as haul has. Some keep to the draft, unless the other side
// names itself as one of OpenSSH's. All that identifies them is the version that
// begins a connection.

// draftClients send a SYMLINK in the draft's order to every server but OpenSSH's.
// The underscore and the dash keep libssh2 out, which sends what it is given.
var draftClients = []string{"AsyncSSH", "WinSCP", "libssh_", "libssh-"}

// draftServers take it in the draft's order from every client but OpenSSH's.
var draftServers = []string{"AsyncSSH"}

// ClientSwapsLinks reports whether a client of that version sends a SYMLINK to a
// server of that version in the draft's order.
func ClientSwapsLinks(client, server string) bool { return draftLinks(client, server, draftClients) }

// ServerSwapsLinks reports whether a server of that version takes a SYMLINK from a
// client of that version in the draft's order.
func ServerSwapsLinks(server, client string) bool { return draftLinks(server, client, draftServers) }

// draftLinks reports whether a peer, by its version, speaks the draft's order
// with somebody who has the version own.
func draftLinks(peer, own string, known []string) bool {
	return !strings.Contains(own, "OpenSSH") &&
		slices.ContainsFunc(known, func(name string) bool { return strings.Contains(peer, name) })
}
