package proxydhcp

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
)

// A Kind is a kind of boot machine, described by the options that it sends to a server.
type Kind struct {
	Name string // name in settings, such as "x64"
	Text string // name for people, such as "UEFI x64"

	vendor string // option 60; "" if it is not sent
	arch   uint16 // value of option 93
	id     string // option 97 after its first byte; "" means 16 zero bytes
	ipxe   []byte // value of option 175; nil if the machine does not run iPXE
}

// Kinds lists the kinds of machines that [Ask] can imitate. The vendor classes are those of real
// firmware (PXE 2.1 §2.2.3, UEFI 2.10 §24.7.3). The iPXE features are those of an iPXE that
// supports HTTP.
var Kinds = []Kind{
	{Name: "bios", Text: "BIOS", vendor: "PXEClient:Arch:00000:UNDI:002001", arch: 0},
	{Name: "x64", Text: "UEFI x64", vendor: "PXEClient:Arch:00007:UNDI:003016", arch: 7},
	{Name: "http-x64", Text: "UEFI x64, HTTP boot", vendor: "HTTPClient:Arch:00016:UNDI:003001", arch: 16},
	{Name: "arm64", Text: "UEFI arm64", vendor: "PXEClient:Arch:00011:UNDI:003000", arch: 11},
	{Name: "http-arm64", Text: "UEFI arm64, HTTP boot", vendor: "HTTPClient:Arch:00019:UNDI:003000", arch: 19},
	{Name: "ipxe", Text: "iPXE on UEFI x64", vendor: "PXEClient:Arch:00007:UNDI:003010", arch: 7, ipxe: []byte{0x13, 1, 1, 0x24, 1, 1}},
	{Name: "pi", Text: "Raspberry Pi", vendor: "PXEClient:Arch:00000:UNDI:002001", arch: 0, id: "RPi4\x14\x31\xd0\x03\x32\x00\x00\x00\x10\x00\x00\x00"},
}

// ParseKind returns the kind with that name.
func ParseKind(name string) (Kind, error) {
	var names []string
	for _, k := range Kinds {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	return Kind{}, fmt.Errorf("%q is no kind of machine; these are known: %s", name, strings.Join(names, ", "))
}

// HTTP reports whether a machine of this kind fetches its first file by HTTP.
func (k Kind) HTTP() bool { return strings.HasPrefix(k.vendor, "HTTPClient") }

// IPXE reports whether a machine of this kind runs iPXE. Such a machine needs a script, and no
// further boot file.
func (k Kind) IPXE() bool { return k.ipxe != nil }

// appendRequest appends a packet that a machine of this kind sends: a DISCOVER, or a REQUEST to
// port 4011. addr is the machine's address; it is zero before the machine has one.
func (k Kind) appendRequest(b []byte, kind uint8, mac dhcp.MAC, xid uint32, addr dhcp.Addr) []byte {
	const ethernet, broadcast = 1, 0x8000
	start := len(b)
	h := dhcp.Header{Op: dhcp.BootRequest, HType: ethernet, XID: xid, Flags: broadcast, ClientAddr: addr}
	h.HLen = uint8(copy(h.HardwareAddr[:], mac.Bytes()))
	b = dhcp.AppendHeader(b, &h)
	b = append(b, dhcp.OptionMessageType, 1, kind)
	// The machine requests mask, router, DNS, name, vendor options, server name and boot file.
	b = dhcp.AppendOption(b, 55, []byte{1, 3, 6, 12, 43, 54, 60, 66, 67})
	b = dhcp.AppendOption(b, 57, []byte{0x05, 0xc0}) // the machine accepts 1472 bytes
	id := []byte(k.id)
	if len(id) == 0 {
		id = make([]byte, 16)
	}
	b = dhcp.AppendOption(b, dhcp.OptionMachineID, append([]byte{0}, id...))
	b = dhcp.AppendOption(b, dhcp.OptionArchitecture, binary.BigEndian.AppendUint16(nil, k.arch))
	b = dhcp.AppendOption(b, 94, []byte{1, 3, 1}) // UNDI 3.1
	b = dhcp.AppendOption(b, dhcp.OptionVendorClass, []byte(k.vendor))
	if k.ipxe != nil {
		b = dhcp.AppendOption(b, dhcp.OptionUserClass, []byte("iPXE"))
		b = dhcp.AppendOption(b, dhcp.OptionIPXE, k.ipxe)
	}
	return dhcp.AppendEnd(b, start)
}
