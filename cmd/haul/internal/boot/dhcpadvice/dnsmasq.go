package dhcpadvice

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
)

// dnsmasq writes lines for dnsmasq. It assigns tags to clients by the options that they send, and
// chooses files by tags. It may evaluate the lines in any order, so no client may have the tags of
// two files.
func dnsmasq(a *advice) string {
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	s.WriteString(comment(a.about("dnsmasq", "dhcp-boot, pxe-service")))
	for _, class := range firmware {
		line("dhcp-vendorclass=set:haul-tftp,%s", class.VendorClass())
	}
	line("dhcp-vendorclass=set:haul-http,%s", pxe.HTTPClient.VendorClass())
	line("dhcp-userclass=set:haul-ipxe,%s", dhcp.UserClassIPXE)
	line("dhcp-match=set:haul-ipxe,%d", dhcp.OptionIPXE)
	if a.noHTTP {
		line("dhcp-match=set:haul-ipxe-http,%d,%d", dhcp.OptionIPXE, dhcp.FeatureHTTP)
	}
	arch := func(tag string, arch pxe.Arch) {
		for _, n := range arch.Numbers() {
			line("dhcp-match=set:%s,option:client-arch,%d", tag, n)
		}
	}
	for _, one := range a.archs {
		arch("haul-"+one.Name(), one)
	}
	if a.has(pxe.Pi) {
		for _, vendor := range dhcp.PiVendors {
			line("dhcp-mac=set:haul-pi-board,%s:*:*:*", colons(vendor[:]))
		}
		line("dhcp-match=set:haul-pi-board,%d,%s", dhcp.OptionMachineID, dhcp.PiMachineID)
		arch("haul-pi-bios", pxe.BIOS)
		line("tag-if=set:haul-pi,tag:haul-pi-board,tag:haul-pi-bios")
		arch("haul-pi", pxe.RaspberryPi)
	}
	for _, mac := range a.hosts {
		line("dhcp-mac=set:haul-host,%v", mac)
		line("dhcp-mac=set:%s,%[2]v", hostTag(mac), mac)
	}
	for _, o := range a.all {
		if o.Class == pxe.NoClass {
			continue
		}
		tags := a.tags(o)
		if o.VendorClass != "" {
			line("dhcp-option-force=%s,%d,%s", tags, dhcp.OptionVendorClass, o.VendorClass)
		}
		if len(o.Vendor) > 0 {
			line("dhcp-option-force=%s,%d,%s", tags, dhcp.OptionVendor, colons(o.Vendor))
		}
		line("dhcp-boot=%s,%s,%s,%s", tags, dnsmasqText(o.File), o.TFTPServer, a.addr)
	}
	return s.String()
}

func hostTag(mac dhcp.MAC) string { return "haul-" + hex.EncodeToString(mac.Bytes()) }

// tags returns the tags that select the clients of an offering.
func (a *advice) tags(o Offering) string {
	var tags []string
	switch o.Class {
	case pxe.IPXE:
		tags = append(tags, "haul-ipxe")
		if o.NoHTTP {
			tags = append(tags, "!haul-ipxe-http")
		} else if a.noHTTP {
			tags = append(tags, "haul-ipxe-http")
		}
	case pxe.HTTPClient:
		tags = append(tags, "!haul-ipxe", "haul-http")
	case pxe.Pi:
		tags = append(tags, "!haul-ipxe", "haul-tftp", "haul-pi")
	default:
		tags = append(tags, "!haul-ipxe", "haul-tftp", "!haul-pi")
	}
	if o.Arch != pxe.UnknownArch {
		tags = append(tags, "haul-"+o.Arch.Name())
	}
	switch {
	case o.MAC != dhcp.MAC{}:
		tags = append(tags, hostTag(o.MAC))
	case len(a.hosts) > 0:
		tags = append(tags, "!haul-host")
	}
	return "tag:" + strings.Join(tags, ",tag:")
}

// dnsmasqText quotes a string if it contains a character that has a special meaning in dnsmasq's
// configuration.
func dnsmasqText(s string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._~/:%", r)
	}
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
