package pxe

import (
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
)

// Invalid rules are refused, and the error names the rule.
func TestRulesAreChecked(t *testing.T) {
	mac := dhcp.MakeMAC([]byte{0x52, 0x54, 0, 0, 0, 1})
	files := func(name string) Rules { return Rules{Files: map[Arch]string{X64: name}} }
	for _, test := range []struct {
		rules Rules
		want  string
	}{
		{files("ipxe.efi"), ""},
		{files(strings.Repeat("x", maxFile)), ""},
		{files(""), "UEFI x64"},
		{files("/ipxe.efi"), "UEFI x64"},
		{files("a\nb"), "control character"},
		{files(strings.Repeat("x", maxFile+1)), "too long"},
		{files(strings.Repeat("%", maxURLPath/3+1)), "too long"},
		{Rules{Files: map[Arch]string{RaspberryPi: "x"}}, "Raspberry Pi"},
		{Rules{Files: map[Arch]string{UnknownArch: "x"}}, "unknown architecture"},
		{Rules{Hosts: map[dhcp.MAC]Host{mac: {}}}, ""},
		{Rules{Hosts: map[dhcp.MAC]Host{mac: {File: "/x"}}}, mac.String()},
		{Rules{Hosts: map[dhcp.MAC]Host{mac: {Form: 9}}}, mac.String()},
		{Rules{Hosts: map[dhcp.MAC]Host{{}: {}}}, "without a MAC"},
		{Rules{Relays: []dhcp.Network{{Addr: dhcp.Addr{10, 0, 0, 0}, Bits: 33}}}, "10.0.0.0/33"},
		{Rules{Relays: []dhcp.Network{{Addr: dhcp.Addr{10, 0, 0, 0}, Bits: -1}}}, "10.0.0.0/-1"},
	} {
		_, err := NewServer(test.rules)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%+v: got %v", test.rules, err)
		}
	}
}

// A program that changes its maps later does not change the server.
func TestRulesAreCopied(t *testing.T) {
	r := Rules{Files: map[Arch]string{X64: "ipxe.efi"}}
	s, err := NewServer(r)
	if err != nil {
		t.Fatal(err)
	}
	r.Files[X64] = "/changed"
	if got := s.rules.Files[X64]; got != "ipxe.efi" {
		t.Errorf("got %q", got)
	}
	if err := s.SetRules(r); err == nil || s.rules.Files[X64] != "ipxe.efi" {
		t.Errorf("rules that are wrong were set: %v, %v", err, s.rules)
	}
}

// Each reason has a text of its own, because the texts are labels of metrics.
func TestReasonsHaveTexts(t *testing.T) {
	seen := map[string]Reason{}
	for r := range NumReasons {
		if other, twice := seen[r.String()]; twice || r.String() == "" {
			t.Errorf("%d and %d: %q", r, other, r)
		}
		seen[r.String()] = r
	}
	if s := NumReasons.String(); s != "unknown reason" {
		t.Errorf("got %q", s)
	}
}
