package site

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// A PerClient says whether clients have their own directories below a root, as with
// tftp-unique-root of dnsmasq. If a client's directory exists, it is that client's root. Otherwise
// the client gets the common root, which is the directory above. A client cannot access another
// client's directory.
type PerClient uint8

// These constants say whether clients have their own directories, and how these are named.
const (
	NotPerClient PerClient = iota // clients have no directories of their own
	ByIP                          // each named by the client's IP address: 192.0.2.7, 2001:db8::7
	ByMAC                         // each named by the client's hardware address: 52-54-00-12-34-56; see Site.Neighbours
)

var perClient = [...]string{NotPerClient: "none", ByIP: "ip", ByMAC: "mac"}

// String returns "none", "ip" or "mac".
func (p PerClient) String() string {
	if int(p) < len(perClient) {
		return perClient[p]
	}
	return fmt.Sprintf("per-client kind %d", uint8(p))
}

// ParsePerClient reads the text that [PerClient.String] returns.
func ParsePerClient(s string) (PerClient, error) {
	if i := slices.Index(perClient[:], s); i >= 0 {
		return PerClient(i), nil
	}
	return 0, fmt.Errorf("per-client directories %q: write one of %s", s, strings.Join(perClient[:], ", "))
}

// names reports whether dir looks like the name of a client's directory.
func (p PerClient) names(dir string) bool {
	switch p {
	case ByIP:
		_, err := netip.ParseAddr(dir)
		return err == nil
	case ByMAC:
		_, ok := parseMAC(dir)
		return ok
	}
	return false
}
