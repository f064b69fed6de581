package dhcpadvice

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
)

func (o Offering) text() string {
	s := fmt.Sprintf("%v %v %v %s", o.MAC, o.Class, o.Arch.Name(), o.File)
	if o.NoHTTP {
		s += " without HTTP"
	}
	if o.VendorClass != "" {
		s += fmt.Sprintf(" 60=%s 43=%d bytes", o.VendorClass, len(o.Vendor))
	}
	return s
}

// Offerings are listed by kind of machine, and for single machines that get other options.
func TestOfferings(t *testing.T) {
	mac := func(last byte) dhcp.MAC { return dhcp.MakeMAC([]byte{0x52, 0x54, 0, 0, 0, last}) }
	rules := pxe.Rules{
		Files: map[pxe.Arch]string{pxe.BIOS: "undionly.kpxe", pxe.X64: "ipxe.efi"}, HTTPPort: 8080,
		Hosts: map[dhcp.MAC]pxe.Host{mac(3): {File: "grub x64.efi"}, mac(1): {Ignore: true}, mac(2): {File: "own.ipxe"}, mac(4): {Form: pxe.Direct}},
	}
	common := []string{
		"iPXE  tftp://192.0.2.9/boot.ipxe without HTTP",
		"iPXE  http://192.0.2.9:8080/boot.ipxe",
		"Raspberry Pi   60=PXEClient 43=32 bytes",
		"HTTP boot bios http://192.0.2.9:8080/undionly.kpxe 60=HTTPClient 43=0 bytes",
		"HTTP boot x64 http://192.0.2.9:8080/ipxe.efi 60=HTTPClient 43=0 bytes",
		"PXE bios undionly.kpxe",
		"PXE x64 ipxe.efi",
	}
	script := []string{"iPXE  tftp://192.0.2.9/own.ipxe without HTTP", "iPXE  http://192.0.2.9:8080/own.ipxe"}
	file := []string{"HTTP boot  http://192.0.2.9:8080/grub%20x64.efi 60=HTTPClient 43=0 bytes", "PXE  grub x64.efi"}
	of := func(mac string, lists ...[]string) (all []string) {
		for _, line := range slices.Concat(lists...) {
			all = append(all, mac+" "+line)
		}
		return all
	}
	const one, two, three, four = "52:54:00:00:00:01", "52:54:00:00:00:02", "52:54:00:00:00:03", "52:54:00:00:00:04"
	for name, test := range map[string]struct {
		change func()
		want   [][]string
	}{
		"all machines": {func() {}, [][]string{
			of(one, []string{"none  "}), of(two, script, common[2:]), of(three, common[:3], file), of("", common),
		}},
		"known machines": {func() { rules.KnownOnly = true }, [][]string{
			of(two, script, common[2:]), of(three, common[:3], file), of(four, common),
		}},
		"no HTTP": {func() { rules = pxe.Rules{Files: map[pxe.Arch]string{pxe.BIOS: "a.0"}} }, [][]string{
			of("", []string{"iPXE  tftp://192.0.2.9/boot.ipxe"}, common[2:3], []string{"PXE bios a.0"}),
		}},
	} {
		before := rules
		test.change()
		all, err := Offerings(rules, server)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range all {
			got = append(got, o.text())
		}
		if want := slices.Concat(test.want...); !slices.Equal(got, want) {
			t.Errorf("%s: the offerings are\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		rules = before
	}
	rules.Files[pxe.X64] = "/absolute"
	if _, err := Offerings(rules, server); err == nil {
		t.Error("rules that are wrong have offerings")
	}
}

// U-Boot gets the same file as PXE firmware of its architecture, as [Offering.Class] says.
func TestOfferingsOfUBoot(t *testing.T) {
	rules := pxe.Rules{Files: map[pxe.Arch]string{}, HTTPPort: 65535}
	for a := pxe.BIOS; a < pxe.RaspberryPi; a++ {
		rules.Files[a] = "a/boot-file-of-some-length." + a.Name()
	}
	mac := dhcp.MakeMAC([]byte{0x52, 0x54, 0, 0, 0, 1})
	rules.Hosts = map[dhcp.MAC]pxe.Host{mac: {File: "grub.efi"}}
	s, err := pxe.NewServer(rules)
	if err != nil {
		t.Fatal(err)
	}
	q := asker{Server: s, addr: server, now: time.Unix(0, 0)}
	for _, mac := range []dhcp.MAC{mac, strangerMAC(rules)} {
		pc, uboot := q.class(pxe.PXEClient, nil, mac), q.class(pxe.UBoot, nil, mac)
		if len(pc) == 0 || len(pc) != len(uboot) {
			t.Fatalf("%v: %d and %d offerings", mac, len(pc), len(uboot))
		}
		for i := range pc {
			if pc[i].File != uboot[i].File || pc[i].Arch != uboot[i].Arch {
				t.Errorf("%v: %+v and %+v", mac, pc[i], uboot[i])
			}
		}
	}
}
