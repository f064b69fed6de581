package dhcpadvice

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
)

// An advice holds the information from which the lines for a DHCP server are written.
type advice struct {
	addr   string
	all    []Offering
	hosts  []dhcp.MAC // machines that have offerings of their own
	archs  []pxe.Arch
	noHTTP bool // an iPXE without HTTP gets a different offering
}

func newAdvice(addr string, all []Offering) *advice {
	a := &advice{addr: addr, all: all}
	for _, o := range all {
		if o.MAC != (dhcp.MAC{}) && !slices.Contains(a.hosts, o.MAC) {
			a.hosts = append(a.hosts, o.MAC)
		}
		if o.Arch != pxe.UnknownArch && !slices.Contains(a.archs, o.Arch) {
			a.archs = append(a.archs, o.Arch)
		}
		a.noHTTP = a.noHTTP || o.NoHTTP
	}
	return a
}

// has reports whether there is an offering for clients of a class.
func (a *advice) has(class pxe.Class) bool {
	return slices.ContainsFunc(a.all, func(o Offering) bool { return o.Class == class })
}

// firmware lists the classes to which an offering for [pxe.PXEClient] applies.
var firmware = []pxe.Class{pxe.PXEClient, pxe.UBoot}

// number formats a value of option 93 in hexadecimal.
func number(n uint16) string { return hex.EncodeToString(binary.BigEndian.AppendUint16(nil, n)) }

// maxFile is the length, in bytes, of the longest name that fits in the field file of a DHCP
// packet.
const maxFile = 127

// colons formats bytes in hexadecimal, with colons, as in 06:01:08.
func colons(b []byte) string {
	var s strings.Builder
	for i, c := range b {
		if i > 0 {
			s.WriteByte(':')
		}
		fmt.Fprintf(&s, "%02x", c)
	}
	return s.String()
}

// about returns lines that explain the configuration. The argument others names the settings for
// boot files that the administrator must remove.
func (a *advice) about(kind, others string) []string {
	lines := []string{
		"Boot files for boot clients, as \"haul boot\" offers them: from haul boot --advise " + kind + ".",
		"haul at " + a.addr + " still serves them. Other lines for boot files must go",
		"(" + others + "). After a change of boot files or rules, print these lines again.",
	}
	if !a.noHTTP {
		return lines
	}
	if kind == "kea" {
		return append(lines, "iPXE without HTTP does not boot by these lines.")
	}
	return lines
}

// comment returns the lines as comments, each with a leading #.
func comment(lines []string) string {
	var s strings.Builder
	for _, l := range lines {
		s.WriteString("# " + l + "\n")
	}
	return s.String()
}
