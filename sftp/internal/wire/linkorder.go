package wire

import (
	"slices"
	"strings"
)

// A SYMLINK has two names, and peers disagree about their order. In the draft, the path of the link
// comes first (draft-ietf-secsh-filexfer-02, section 6.10). In OpenSSH, the target comes first
// (PROTOCOL, section 4.1); most other implementations, including haul, follow OpenSSH. Some use the
// draft's order unless the other side identifies itself as OpenSSH. The only way to recognize these
// is the version string at the beginning of the connection.

// draftClients send a SYMLINK in the draft's order to every server except OpenSSH. The underscore
// and the dash exclude libssh2, which sends the names in the order that its caller chooses.
var draftClients = []string{"AsyncSSH", "WinSCP", "libssh_", "libssh-"}

// draftServers expect a SYMLINK in the draft's order from every client except OpenSSH.
var draftServers = []string{"AsyncSSH"}

// ClientSwapsLinks reports whether a client with the version string `client` sends a SYMLINK in the
// draft's order to a server with the version string `server`.
func ClientSwapsLinks(client, server string) bool { return draftLinks(client, server, draftClients) }

// ServerSwapsLinks reports whether a server with the version string `server` expects a SYMLINK in
// the draft's order from a client with the version string `client`.
func ServerSwapsLinks(server, client string) bool { return draftLinks(server, client, draftServers) }

// draftLinks reports whether a peer with the version string `peer` uses the draft's order when the
// other side has the version string `own`. The list `known` identifies the peers that may do so.
func draftLinks(peer, own string, known []string) bool {
	return !strings.Contains(own, "OpenSSH") &&
		slices.ContainsFunc(known, func(name string) bool { return strings.Contains(peer, name) })
}
