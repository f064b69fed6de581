package dhcpadvice

import (
	"fmt"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
)

// iscOptions declares the options that ISC dhcpd does not know.
const iscOptions = `option haul-architecture code 93 = string;
option space ipxe;
option ipxe-features code 175 = encapsulate ipxe;
option ipxe.http code 19 = unsigned integer 8;
`

// isc writes lines for ISC dhcpd: a chain of conditions, of which dhcpd applies the first one that
// is true.
func isc(a *advice) string {
	var s strings.Builder
	s.WriteString(comment(a.about("isc", "filename, next-server")))
	s.WriteString(iscOptions)
	word := "if"
	when := func(condition string, statements ...string) {
		fmt.Fprintf(&s, "%s %s {\n", word, condition)
		for _, one := range statements {
			s.WriteString("  " + one + ";\n")
		}
		s.WriteString("} ")
		word = "elsif"
	}
	var host dhcp.MAC
	// A machine that has a rule of its own must not match the conditions for other machines. So the
	// chain for it ends with a condition that matches only this machine.
	last := func() {
		if host != (dhcp.MAC{}) {
			when(iscHost(host))
		}
	}
	for _, o := range a.all {
		if o.MAC != host {
			last()
			host = o.MAC
		}
		if o.Class != pxe.NoClass {
			when(a.iscCondition(o), a.iscStatements(o)...)
		}
	}
	last()
	return strings.TrimRight(s.String(), " ") + "\n"
}

func iscHost(mac dhcp.MAC) string { return "hardware = 1:" + mac.String() }

// iscCondition returns a condition that is true for the clients of an offering.
func (a *advice) iscCondition(o Offering) string {
	const vendor = "option vendor-class-identifier"
	var all []string
	if o.MAC != (dhcp.MAC{}) {
		all = append(all, iscHost(o.MAC))
	}
	var classes []pxe.Class
	switch o.Class {
	case pxe.IPXE:
		any := []string{fmt.Sprintf("option user-class = %q", dhcp.UserClassIPXE), fmt.Sprintf("substring(option user-class, 1, %d) = %q", len(dhcp.UserClassIPXE), dhcp.UserClassIPXE)}
		switch {
		case o.NoHTTP:
			all = append(all, "not exists ipxe.http")
		case a.noHTTP:
			any = []string{"exists ipxe.http"} // clients without HTTP are handled by an earlier condition
		default:
			any = append(any, "exists ipxe.http")
		}
		all = appendAny(all, any)
	case pxe.HTTPClient, pxe.Pi:
		classes = []pxe.Class{o.Class}
	default:
		classes = firmware
	}
	var any []string
	for _, c := range classes {
		any = append(any, fmt.Sprintf("substring(%s, 0, %d) = %q", vendor, len(c.VendorClass()), c.VendorClass()))
	}
	all = appendAny(all, any)
	if o.Class == pxe.Pi {
		all = append(all, iscPi())
	}
	any = nil
	if o.Arch != pxe.UnknownArch {
		any = iscArch(o.Arch)
	}
	return strings.Join(appendAny(all, any), "\n  and ")
}

// appendAny appends a condition that is true if at least one of the conditions in `any` is true.
func appendAny(all, any []string) []string {
	switch len(any) {
	case 0:
		return all
	case 1:
		return append(all, any[0])
	}
	return append(all, "("+strings.Join(any, " or ")+")")
}

func iscArch(arch pxe.Arch) (any []string) {
	for _, n := range arch.Numbers() {
		hex := number(n)
		any = append(any, "substring(option haul-architecture, 0, 2) = "+hex[:2]+":"+hex[2:])
	}
	return any
}

// iscPi returns a condition that is true for a Raspberry Pi, even if it claims to have a BIOS.
func iscPi() string {
	var boards []string
	for _, vendor := range dhcp.PiVendors {
		boards = append(boards, "substring(hardware, 1, 3) = "+colons(vendor[:]))
	}
	bios := strings.Join(appendAny(nil, iscArch(pxe.BIOS)), "")
	pi := strings.Join(iscArch(pxe.RaspberryPi), " or ")
	return "(" + pi + " or " + bios + " and (" + strings.Join(boards, "\n    or ") + "))"
}

func (a *advice) iscStatements(o Offering) (all []string) {
	if o.VendorClass != "" {
		all = append(all, fmt.Sprintf("option vendor-class-identifier %q", o.VendorClass))
	}
	if len(o.Vendor) > 0 {
		all = append(all, "option vendor-encapsulated-options "+colons(o.Vendor))
	}
	all = append(all, "next-server "+a.addr)
	if o.TFTPServer != "" {
		all = append(all, fmt.Sprintf("option tftp-server-name %q", o.TFTPServer))
	}
	if o.File != "" {
		file := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(o.File) + `"`
		all = append(all, "option bootfile-name "+file)
		if len(o.File) <= maxFile {
			all = append(all, "filename "+file)
		}
	}
	return all
}
