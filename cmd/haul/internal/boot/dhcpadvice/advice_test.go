package dhcpadvice

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/internal/golden"
)

var server = dhcp.Addr{192, 0, 2, 9}

func mac(last byte) dhcp.MAC { return dhcp.MakeMAC([]byte{0x52, 0x54, 0, 0x12, 0x34, last}) }

// testRules returns rules for single machines, and a file whose name has special characters in
// configuration files.
func testRules() pxe.Rules {
	return pxe.Rules{
		Files:    map[pxe.Arch]string{pxe.BIOS: "undionly.kpxe", pxe.X64: "ipxe.efi"},
		HTTPPort: 80,
		Hosts: map[dhcp.MAC]pxe.Host{
			mac(1): {Ignore: true},
			mac(3): {File: `grub "new", #1 \x.efi`},
			mac(4): {Form: pxe.Direct}, // this machine gets the same options as the others
		},
	}
}

func write(t *testing.T, kind string, r pxe.Rules) string {
	t.Helper()
	all, err := Offerings(r, server)
	if err != nil {
		t.Fatal(err)
	}
	text, err := Write(kind, server, all)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The lines for each kind of server are equal to the reviewed lines in testdata. Package interop
// makes dnsmasq read them.
func TestLines(t *testing.T) {
	for _, kind := range Servers() {
		golden.Compare(t, kind+".txt", write(t, kind, testRules()))
	}
	if _, err := Write("udhcpd", server, nil); err == nil || !strings.Contains(err.Error(), "dnsmasq, isc, kea") {
		t.Errorf("an unknown server: %v", err)
	}
}

// With KnownOnly, only machines with rules get something.
func TestKnownOnly(t *testing.T) {
	r := testRules()
	r.KnownOnly = true
	for line := range strings.Lines(write(t, "dnsmasq", r)) {
		if strings.HasPrefix(line, "dhcp-boot=") && !strings.Contains(line, ",tag:haul-5254001234") {
			t.Errorf("it is for all machines: %s", line)
		}
	}
}

// The lines for Kea are JSON. Each class has a unique name, and comes after the classes that it
// refers to.
func TestKeaIsJSON(t *testing.T) {
	var doc struct {
		Dhcp4 struct {
			Classes []keaClass `json:"client-classes"`
		}
	}
	if err := json.Unmarshal([]byte(write(t, "kea", testRules())), &doc); err != nil {
		t.Fatal(err)
	}
	var names, files []string
	for _, c := range doc.Dhcp4.Classes {
		for i, part := range strings.Split(c.Test, "'") {
			if asked := i > 0 && strings.HasSuffix(strings.Split(c.Test, "'")[i-1], "member("); asked && !slices.Contains(names, part) {
				t.Errorf("%s asks for %s, which does not come before", c.Name, part)
			}
		}
		if slices.Contains(names, c.Name) || c.Name == "" || c.Test == "" {
			t.Errorf("class %+v", c)
		}
		names, files = append(names, c.Name), append(files, c.File)
		if strings.Count(c.Test, "(") != strings.Count(c.Test, ")") {
			t.Errorf("parentheses of %s", c.Test)
		}
	}
	for _, want := range []string{"undionly.kpxe", "http://192.0.2.9/ipxe.efi", `grub "new", #1 \x.efi`} {
		if !slices.Contains(files, want) {
			t.Errorf("no class has the file %s", want)
		}
	}
}
