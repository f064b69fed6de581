// Package dhcpadvice writes configuration lines with which a DHCP server names boot files itself,
// as "haul boot" would next to it. It implements "haul boot --advise".
//
// The offerings come from [Offerings], which asks a [pxe.Server]. dnsmasq.go, isc.go
// and kea.go each write for one server, and advice.go has the parts that are common to them.
package dhcpadvice

import (
	"fmt"
	"strings"

	"github.com/haul-project/haul/internal/dhcp"
)

// writers has a function for each kind of server, which writes its lines.
var writers = map[string]func(*advice) string{"dnsmasq": dnsmasq, "isc": isc, "kea": kea}

// Servers returns the names of the kinds of servers.
func Servers() []string { return []string{"dnsmasq", "isc", "kea"} }

// Write returns configuration lines for a kind of server. addr is where clients reach haul, and all
// is what haul offers them.
func Write(server string, addr dhcp.Addr, all []Offering) (string, error) {
	write, ok := writers[server]
	if !ok {
		return "", fmt.Errorf("unknown DHCP server %q; these are known: %s", server, strings.Join(Servers(), ", "))
	}
	return write(newAdvice(addr.String(), all)), nil
}
