package dhcp

import (
	"bytes"
	"maps"
	"strings"
	"testing"
)

// packet returns a packet with the given bytes after the cookie.
func packet(options string) []byte {
	h := Header{Op: BootRequest, HType: 1, HLen: 6, HardwareAddr: [16]byte{0x52, 0x54, 0, 0, 0, 1}}
	return append(AppendHeader(nil, &h), options...)
}

func TestParse(t *testing.T) {
	long := strings.Repeat("x", 255)
	for _, test := range []struct {
		name, options string
		want          map[uint8]string
	}{
		{"nothing", "", nil},
		{"END", "\xff", nil},
		{"behind END", "\xff\x3c\x01x", nil},
		{"pads", "\x00\x00\x3c\x01x\x00\x00\x4d\x00\x00\x00\xff\x00", map[uint8]string{60: "x", 77: ""}},
		{"no END", "\x3c\x01x", map[uint8]string{60: "x"}},
		{"no END behind pads", "\x3c\x01x\x00\x00", map[uint8]string{60: "x"}},
		{"pieces", "\x3c\x01a\x4d\x01u\x3c\x00\x3c\x02bc\xff", map[uint8]string{60: "abc", 77: "u"}},
		{"long", "\x3c\xff" + long + "\x3c\x01y\xff", map[uint8]string{60: long + "y"}},
	} {
		p, err := Parse(packet(test.options))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		got := map[uint8]string{}
		for code, value := range p.Options() {
			got[code] = string(value)
		}
		if !maps.Equal(got, test.want) {
			t.Errorf("%s: got %q", test.name, got)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	valid := packet("\xff")
	noCookie := bytes.Clone(valid)
	noCookie[236] = 0
	for name, b := range map[string][]byte{
		"nothing":             nil,
		"a short header":      valid[:headerSize-1],
		"no cookie":           noCookie,
		"too long":            append(bytes.Clone(valid), make([]byte, MaxRequest)...),
		"a code without more": packet("\x3c"),
		"a length past it":    packet("\x3c\x02x"),
		"END as a value":      packet("\x3c\x02\xff"),
		"52 without a value":  packet("\x34\x00\xff"),
		"52 of two bytes":     packet("\x34\x02\x01\x01\xff"),
		"52 in two pieces":    packet("\x34\x01\x01\x34\x01\x01\xff"),
		"52 of 0":             packet("\x34\x01\x00\xff"),
	} {
		if p, err := Parse(b); err == nil {
			t.Errorf("%s: got %+v", name, p)
		} else if err.Error() == "" {
			t.Errorf("%s: the error has no text", name)
		}
	}
}

// A value in two pieces is joined in its own memory: the packet does not change.
func TestOptionLeavesThePacketAlone(t *testing.T) {
	b := packet("\x3c\x02ab\x3c\x02cd\xff")
	before := bytes.Clone(b)
	p, err := Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	value, _ := p.Option(OptionVendorClass)
	if string(value) != "abcd" || !bytes.Equal(b, before) {
		t.Errorf("got %q, and the packet is now %q", value, b[headerSize:])
	}
}

func TestMAC(t *testing.T) {
	for text, want := range map[string]string{
		"52:54:00:12:34:56": "52:54:00:12:34:56",
		"DC-A6-32-0A-0B-0C": "dc:a6:32:0a:0b:0c",
		"00:11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff": "00:11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff",
		"": "", "5:54:00:12:34:56": "", "52:54:00:12:34:5g": "", "+5:54:00:12:34:56": "", "52:54:00:12:34:": "", "52:54:00:12:34": "",
		"00:11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff:00": "",
	} {
		mac, err := ParseMAC(text)
		if (err == nil) != (want != "") || mac.String() != want {
			t.Errorf("%q: got %v, %v", text, mac, err)
		}
	}
	// A client may have a shorter one.
	var short MAC
	if err := short.UnmarshalText([]byte("52:54")); err != nil || short != MakeMAC([]byte{0x52, 0x54}) {
		t.Errorf("52:54 is %v, %v", short, err)
	}
	if MakeMAC(make([]byte, 17)) != (MAC{}) || MakeMAC(make([]byte, 6)) == (MAC{}) {
		t.Error("17 bytes are a MAC, or six zeros are none")
	}
}

func TestNetwork(t *testing.T) {
	for _, test := range []struct {
		n    Network
		a    Addr
		want bool
	}{
		{Network{Addr{198, 51, 100, 0}, 24}, Addr{198, 51, 100, 255}, true},
		{Network{Addr{198, 51, 100, 7}, 24}, Addr{198, 51, 100, 1}, true},
		{Network{Addr{198, 51, 100, 0}, 24}, Addr{198, 51, 101, 0}, false},
		{Network{Addr{}, 0}, Addr{203, 0, 113, 1}, true},
		{Network{Addr{203, 0, 113, 1}, 32}, Addr{203, 0, 113, 1}, true},
		{Network{Addr{203, 0, 113, 1}, 32}, Addr{203, 0, 113, 0}, false},
	} {
		if got := test.n.Contains(test.a); got != test.want {
			t.Errorf("%v in %v: got %v", test.a, test.n, got)
		}
	}
}
