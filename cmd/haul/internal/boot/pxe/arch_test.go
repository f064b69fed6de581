package pxe

import (
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
)

func TestClassifyArchitecture(t *testing.T) {
	for _, test := range []struct {
		list, vendor string
		want         Arch
	}{
		{"\x00\x07", "PXEClient", X64},
		{"\x00\x09", "PXEClient", X64},
		{"\x00\x06", "PXEClient", IA32},
		{"\x12\x34\x00\x0b\x00\x00", "PXEClient", ARM64},   // the first known number counts
		{"\x00\x0b\x00", "PXEClient", ARM64},               // the last number is cut off
		{"\x00", "PXEClient:Arch:00000:UNDI:002001", BIOS}, // there is no whole number
		{"\x12\x34", "PXEClient:Arch:00027:UNDI:003001", RISCV64},
		{"", "PXEClient:Arch:00039", LoongArch64},
		{"", "PXEClient:Arch:65543:UNDI:003001", UnknownArch},
		{"", "PXEClient:Arch:", UnknownArch},
		{"", "PXEClient", UnknownArch},
		{"\x00\x0a", "PXEClient:Arch:00007", ARM}, // option 93 has precedence
	} {
		b := dhcp.AppendOption(packet(""), dhcp.OptionVendorClass, []byte(test.vendor))
		if test.list != "" {
			b = dhcp.AppendOption(b, dhcp.OptionArchitecture, []byte(test.list))
		}
		p, err := dhcp.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		if got := classify(&p); got.Arch != test.want || got.Class != PXEClient {
			t.Errorf("%q, %q: got %+v", test.list, test.vendor, got)
		}
	}
}

// Each architecture has a text and a name, and ParseArch accepts each name.
func TestArchNames(t *testing.T) {
	for a := range NumArchs {
		if a.String() == "" {
			t.Errorf("architecture %d has no text", a)
		}
		name := archTexts[a].name
		got, err := ParseArch(name)
		if settable := a != UnknownArch && a != RaspberryPi; (err == nil) != settable || settable && got != a {
			t.Errorf("%q: got %v, %v", name, got, err)
		}
	}
	for number, want := range map[uint16]Arch{0: BIOS, 1: UnknownArch, 41: RaspberryPi, 42: UnknownArch, 65535: UnknownArch} {
		if got := archOf(number); got != want {
			t.Errorf("%d: got %v", number, got)
		}
	}
	if s := Arch(200).String(); s != UnknownArch.String() {
		t.Errorf("got %q", s)
	}
}
