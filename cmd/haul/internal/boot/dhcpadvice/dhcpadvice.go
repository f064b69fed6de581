// Package dhcpadvice writes configuration lines for a DHCP server. With these lines, the server
// itself offers the boot files that "haul boot" would offer next to it. The package implements
// "haul boot --advise".
//
// The offerings come from [Offerings], which asks a [pxe.Server]. dnsmasq.go, isc.go and kea.go
// each write lines for one kind of server. advice.go contains their common parts.
package dhcpadvice

import (
	"fmt"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
)

// writers maps each kind of server to the function that writes its lines.
var writers = map[string]func(*advice) string{"dnsmasq": dnsmasq, "isc": isc, "kea": kea}

// Servers returns the names of the kinds of servers.
func Servers() []string { return []string{"dnsmasq", "isc", "kea"} }

// Write returns configuration lines for a kind of server. addr is the address at which clients
// reach haul. all holds the offerings.
func Write(server string, addr dhcp.Addr, all []Offering) (string, error) {
	write, ok := writers[server]
	if !ok {
		return "", fmt.Errorf("unknown DHCP server %q; these are known: %s", server, strings.Join(Servers(), ", "))
	}
	return write(newAdvice(addr.String(), all)), nil
}
