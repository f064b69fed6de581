package pxe

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
)

// A Class is a kind of boot client. The answer to a client depends on its class.
type Class uint8

// These are the classes. A client of NoClass does not boot from the network, and gets no answer.
const (
	NoClass    Class = iota
	PXEClient        // firmware that loads files by TFTP
	HTTPClient       // firmware that loads files by HTTP (UEFI HTTP boot)
	IPXE             // iPXE, as a loader or in the ROM of a card
	UBoot
	Pi // the first boot stages of a Raspberry Pi
)

var classTexts = [...]string{"none", "PXE", "HTTP boot", "iPXE", "U-Boot", "Raspberry Pi"}

// String returns the name of the class.
func (c Class) String() string {
	if int(c) < len(classTexts) {
		return classTexts[c]
	}
	return classTexts[NoClass]
}

// VendorClass returns the beginning of option 60 as clients of the class send it. It returns "" for
// iPXE, which may send any vendor class.
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

	// HTTP says that the client can fetch files by HTTP, and Starts that it can start the kind of
	// files that its firmware needs. Both are set for iPXE only.
	HTTP, Starts bool
}

// classify returns the class and the architecture of the sender of a packet. It does not require
// options 94 and 97 of RFC 4578, and does not check their lengths: some Intel ROMs omit option 97.
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

// firstArch returns the first architecture in option 93 that is known or, without one, the
// architecture in option 60, which has the form "PXEClient:Arch:00007:UNDI:003016" (PXE 2.1, table
// 2-1).
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

// isIPXE reports whether the packet contains the user class of iPXE. iPXE sends only the name.
// Other clients send a list, with the length before each class, as RFC 3004 §4 requires; the class
// may be in such a list too.
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

// isPi reports whether a client is a Raspberry Pi although it claims to be a PC with a BIOS, as a
// Pi 4 does.
func isPi(p *dhcp.Packet) bool {
	id, _ := p.Option(dhcp.OptionMachineID)
	return bytes.Contains(id, []byte(dhcp.PiMachineID)) ||
		p.HLen == 6 && slices.Contains(dhcp.PiVendors, [3]byte(p.HardwareAddr[:3]))
}

// suboption returns the value of the first option with that code within an option's value. It
// returns nil if there is no such option, and an empty slice if its value is empty. If there are
// several, no specification says how to join them.
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
