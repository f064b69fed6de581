package dhcpadvice

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
)

// A keaClass is an element of "client-classes" in the configuration of Kea.
type keaClass struct {
	Name       string      `json:"name"`
	Comment    string      `json:"comment,omitempty"`
	Test       string      `json:"test"`
	NextServer string      `json:"next-server,omitempty"`
	File       string      `json:"boot-file-name,omitempty"`
	Options    []keaOption `json:"option-data,omitempty"`
	Defines    []keaDef    `json:"option-def,omitempty"`
}

type keaOption struct {
	Name   string `json:"name"`
	Data   string `json:"data"`
	CSV    *bool  `json:"csv-format,omitempty"`
	Always bool   `json:"always-send"`
}

type keaDef struct {
	Name string `json:"name"`
	Code int    `json:"code"`
	Type string `json:"type"`
}

// kea writes client classes for Kea. A client belongs to at most one class that names a file.
func kea(a *advice) string {
	classes := []keaClass{{Name: "haul-ipxe", Comment: strings.Join(a.about("kea", "boot-file-name, next-server"), " "), Test: keaIPXE}}
	if len(a.hosts) > 0 {
		var any []string
		for _, mac := range a.hosts {
			any = append(any, keaHost(mac))
		}
		classes = append(classes, keaClass{Name: "haul-host", Test: strings.Join(any, " or ")})
	}
	if a.has(pxe.Pi) {
		classes = append(classes, keaClass{Name: "haul-pi", Test: keaPi()})
	}
	for _, o := range a.all {
		// Kea cannot match the content of option 175.
		if o.Class != pxe.NoClass && !o.NoHTTP {
			classes = append(classes, a.keaClass(o))
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	// Writing to a buffer cannot fail.
	_ = e.Encode(map[string]any{"Dhcp4": map[string]any{"client-classes": classes}})
	return b.String()
}

var keaIPXE = fmt.Sprintf("option[%d].exists or option[%d].hex == '%[3]s' or substring(option[%[2]d].hex, 1, %[4]d) == '%[3]s'",
	dhcp.OptionIPXE, dhcp.OptionUserClass, dhcp.UserClassIPXE, len(dhcp.UserClassIPXE))

func keaHost(mac dhcp.MAC) string { return "pkt4.mac == 0x" + hex.EncodeToString(mac.Bytes()) }

func keaArch(arch pxe.Arch) string {
	var any []string
	for _, n := range arch.Numbers() {
		any = append(any, fmt.Sprintf("substring(option[%d].hex, 0, 2) == 0x%s", dhcp.OptionArchitecture, number(n)))
	}
	return "(" + strings.Join(any, " or ") + ")"
}

// keaPi returns a condition that is true for a Raspberry Pi, even if it claims to have a BIOS.
func keaPi() string {
	var boards []string
	for _, vendor := range dhcp.PiVendors {
		boards = append(boards, "substring(pkt4.mac, 0, 3) == 0x"+hex.EncodeToString(vendor[:]))
	}
	return keaVendor(pxe.Pi) + " and (" + keaArch(pxe.RaspberryPi) + " or " + keaArch(pxe.BIOS) + " and (" + strings.Join(boards, " or ") + "))"
}

func keaVendor(classes ...pxe.Class) string {
	var any []string
	for _, c := range classes {
		any = append(any, fmt.Sprintf("substring(option[%d].hex, 0, %d) == '%s'", dhcp.OptionVendorClass, len(c.VendorClass()), c.VendorClass()))
	}
	return "(" + strings.Join(any, " or ") + ")"
}

func (a *advice) keaClass(o Offering) keaClass {
	name := []string{"haul"}
	all := []string{"not member('haul-ipxe')"}
	switch o.Class {
	case pxe.IPXE:
		name, all = append(name, "ipxe-script"), []string{"member('haul-ipxe')"}
	case pxe.HTTPClient:
		name, all = append(name, "http"), append(all, keaVendor(o.Class))
	case pxe.Pi:
		name, all = append(name, "pi-boot"), append(all, "member('haul-pi')")
	default:
		name, all = append(name, "tftp"), append(all, keaVendor(firmware...))
		if a.has(pxe.Pi) {
			all = append(all, "not member('haul-pi')")
		}
	}
	if o.Arch != pxe.UnknownArch {
		name, all = append(name, o.Arch.Name()), append(all, keaArch(o.Arch))
	}
	switch {
	case o.MAC != dhcp.MAC{}:
		name, all = append(name, hex.EncodeToString(o.MAC.Bytes())), append(all, keaHost(o.MAC))
	case len(a.hosts) > 0:
		all = append(all, "not member('haul-host')")
	}
	c := keaClass{Name: strings.Join(name, "-"), Test: strings.Join(all, " and "), NextServer: a.addr}
	option := func(name, data string) {
		c.Options = append(c.Options, keaOption{Name: name, Data: strings.ReplaceAll(data, ",", `\,`), Always: true})
	}
	if o.VendorClass != "" {
		option("vendor-class-identifier", o.VendorClass)
	}
	if len(o.Vendor) > 0 {
		binary := false
		c.Defines = []keaDef{{"vendor-encapsulated-options", dhcp.OptionVendor, "binary"}}
		c.Options = append(c.Options, keaOption{"vendor-encapsulated-options", strings.ToUpper(hex.EncodeToString(o.Vendor)), &binary, true})
	}
	if o.TFTPServer != "" {
		option("tftp-server-name", o.TFTPServer)
	}
	if o.File != "" {
		option("boot-file-name", o.File)
		if len(o.File) <= maxFile {
			c.File = o.File
		}
	}
	return c
}
