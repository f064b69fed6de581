package pxe

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
)

// A Class is the kind of a boot client, which determines the answer.
type Class uint8

// The classes. A client of NoClass does not boot from the network and gets no answer.
const (
	NoClass    Class = iota
	PXEClient        // firmware that loads files by TFTP
	HTTPClient       // firmware that loads files by HTTP (UEFI HTTP boot)
	IPXE             // iPXE, as a loader or in the ROM of a card
	UBoot
	Pi // the first stages of a Raspberry Pi
)

var classTexts = [...]string{"none", "PXE", "HTTP boot", "iPXE", "U-Boot", "Raspberry Pi"}

// String returns the name of the class.
func (c Class) String() string {
	if int(c) < len(classTexts) {
		return classTexts[c]
	}
	return classTexts[NoClass]
}

// VendorClass returns the beginning of option 60 for clients of the class. It is empty for iPXE,
// which may send any vendor class.
func (c Class) VendorClass() string {
	switch c {
	case PXEClient, Pi:
		return "PXEClient"
	case HTTPClient:
		return "HTTPClient"
	case UBoot:
		return "U-Boot"
	}
	return ""
}

// begins reports whether option 60 begins with the vendor class of c.
func (c Class) begins(vendor []byte) bool { return bytes.HasPrefix(vendor, []byte(c.VendorClass())) }

// A Client describes the sender of a packet.
type Client struct {
	Class Class
	Arch  Arch

	// For iPXE: whether it can fetch files by HTTP, and whether it can start the files that its
	// firmware needs.
	HTTP, Starts bool
}

// classify returns the class and the architecture of a packet's sender. It does not require the
// options 94 and 97 of RFC 4578, nor that they have the right length: some Intel ROMs omit 97.
func classify(p *dhcp.Packet) Client {
	vendor, _ := p.Option(dhcp.OptionVendorClass)
	list, hasList := p.Option(dhcp.OptionArchitecture)
	c := Client{Arch: firstArch(list, vendor)}
	features, ipxe := p.Option(dhcp.OptionIPXE)
	switch {
	case ipxe || isIPXE(p):
		c.Class = IPXE
		c.HTTP = suboption(features, dhcp.FeatureHTTP) != nil
		c.Starts = suboption(features, dhcp.FeatureBZImage) != nil || suboption(features, dhcp.FeatureEFI) != nil
	case HTTPClient.begins(vendor):
		c.Class = HTTPClient
	case PXEClient.begins(vendor):
		c.Class = PXEClient
		if c.Arch == RaspberryPi || c.Arch == BIOS && isPi(p) {
			c.Class, c.Arch = Pi, RaspberryPi
		}
	case UBoot.begins(vendor) && hasList:
		c.Class = UBoot
	}
	return c
}

// firstArch returns the first known architecture in option 93, or else the one in option 60, whose
// form is "PXEClient:Arch:00007:UNDI:003016" (PXE 2.1, table 2-1).
func firstArch(list, vendor []byte) Arch {
	for ; len(list) >= 2; list = list[2:] {
		if a := archOf(binary.BigEndian.Uint16(list)); a != UnknownArch {
			return a
		}
	}
	const digits = 5
	_, text, _ := bytes.Cut(vendor, []byte(":Arch:"))
	if len(text) < digits {
		return UnknownArch
	}
	number := 0
	for _, d := range text[:digits] {
		if d < '0' || d > '9' {
			return UnknownArch
		}
		number = 10*number + int(d-'0')
	}
	if number > math.MaxUint16 {
		return UnknownArch
	}
	return archOf(uint16(number))
}

// isIPXE reports whether iPXE is among the user classes. iPXE sends its bare name; other clients
// put the length before each class, as RFC 3004 §4 requires.
func isIPXE(p *dhcp.Packet) bool {
	classes, _ := p.Option(dhcp.OptionUserClass)
	name := []byte(dhcp.UserClassIPXE)
	if bytes.Equal(classes, name) {
		return true
	}
	for len(classes) > 0 && int(classes[0]) < len(classes) {
		end := 1 + int(classes[0])
		if bytes.Equal(classes[1:end], name) {
			return true
		}
		classes = classes[end:]
	}
	return false
}

// isPi reports whether a client is a Raspberry Pi that claims to be a PC with a BIOS, as a Pi 4
// does.
func isPi(p *dhcp.Packet) bool {
	id, _ := p.Option(dhcp.OptionMachineID)
	return bytes.Contains(id, []byte(dhcp.PiMachineID)) ||
		p.HLen == 6 && slices.Contains(dhcp.PiVendors, [3]byte(p.HardwareAddr[:3]))
}

// suboption returns the value of an option within an option. It returns nil if that option is
// absent, and an empty slice if it has no bytes. No rule says how to join several such options with
// one code, so the first one counts.
func suboption(area []byte, code uint8) []byte {
	for {
		c, value, rest, ok := dhcp.NextOption(area)
		switch {
		case !ok || c == dhcp.OptionEnd:
			return nil
		case c == code:
			return slices.Clip(value)
		}
		area = rest
	}
}
