package pxe

import (
	"bytes"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
)

// packet returns a packet with the given options after the cookie.
func packet(options string) []byte {
	h := dhcp.Header{Op: dhcp.BootRequest, HType: 1, HLen: 6, HardwareAddr: [16]byte{0x52, 0x54, 0, 0, 0, 1}}
	return append(dhcp.AppendHeader(nil, &h), options...)
}

// requests returns packets of each kind of client, as seeds and to check the bounds.
func requests() map[string][]byte {
	all := map[string][]byte{}
	add := func(name string, options ...string) {
		b := append(packet(""), dhcp.OptionMessageType, 1, dhcp.Discover)
		for _, o := range options {
			b = dhcp.AppendOption(b, o[0], []byte(o[1:]))
		}
		all[name] = dhcp.AppendEnd(b, 0)
	}
	const uuid = "\x61\x000123456789abcdef"
	add("bios", "\x3cPXEClient:Arch:00000:UNDI:002001", "\x5d\x00\x00")
	add("uefi", "\x3cPXEClient:Arch:00007:UNDI:003001", "\x5d\x00\x07", uuid)
	add("http", "\x3cHTTPClient:Arch:00016:UNDI:003001", "\x5d\x00\x10", uuid)
	add("ipxe", "\x3cPXEClient:Arch:00007:UNDI:003001", "\x4diPXE", "\x5d\x00\x07", "\xaf\x13\x01\x01\x24\x01\x01", uuid)
	add("ipxe-lacks", "\x4d\x04iPXE", "\x5d\x00\x07")
	add("u-boot", "\x3cU-Boot.armv8", "\x5d\x00\x16")
	add("pi", "\x3cPXEClient", "\x5d\x00\x29")
	add("stranger", "\x3cMSFT 5.0")
	add("two pieces", "\x3cPXEC", "\x5d\x00", "\x3client", "\x5d\x07")
	add("boot item", "\x3cPXEClient", "\x5d\x00\x00", "\x2b\x47\x04\x00\x01\x00\x00\xff")
	add("relay", "\x3cPXEClient", "\x5d\x00\x07", "\x52\x01\x04eth0")
	copy(all["relay"][24:], "\xc6\x33\x64\x01")
	add("overload", "\x34\x03", "\x5d\x00\x07")
	copy(all["overload"][108:], "\x3c\x04PXEC\xff")
	copy(all["overload"][44:], "\x3c\x05lient\xff")
	all["no END"] = append(packet(""), "\x35\x01\x01\x3c\x09PXEClient\x5d\x02\x00\x07"...)
	return all
}

// If a packet is parsed, and written again with each option once, the result parses as the same
// packet.
func FuzzParse(f *testing.F) {
	for _, b := range requests() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		p, err := dhcp.Parse(b)
		if err != nil {
			return
		}
		again := dhcp.AppendHeader(nil, &p.Header)
		n := 0
		for code, value := range p.Options() {
			if code == dhcp.OptionPad || code == dhcp.OptionEnd || code == dhcp.OptionOverload {
				t.Fatalf("%x: option %d", b, code)
			}
			again, n = dhcp.AppendOption(again, code, value), n+1
		}
		if !bytes.Equal(b, before) {
			t.Fatalf("%x was changed to %x", before, b)
		}
		// A joined option needs no more room than its pieces. The options from sname and file, and
		// END, do need more.
		again = dhcp.AppendEnd(again, 0)
		if len(again) > max(dhcp.MinPacket, len(b)+1+len(p.ServerName)+len(p.File)) {
			t.Fatalf("%x became %d bytes", b, len(again))
		}
		if len(again) > dhcp.MaxRequest {
			return
		}
		q, err := dhcp.Parse(again)
		if err != nil || q.Header != p.Header || q.Type() != p.Type() || classify(&q) != classify(&p) {
			t.Fatalf("%x became %x: %v", b, again, err)
		}
		for code, value := range q.Options() {
			was, ok := p.Option(code)
			if n--; !ok || !bytes.Equal(was, value) {
				t.Fatalf("%x became %x: option %d was %x and is %x", b, again, code, was, value)
			}
		}
		if n != 0 {
			t.Fatalf("%x became %x: %d options are gone", b, again, n)
		}
	})
}

// Whatever packet arrives, an answer assigns no address, is sent only to boot clients and to
// networks where they can be, and is small.
func FuzzServer(f *testing.F) {
	for _, b := range requests() {
		f.Add(b, uint16(dhcp.PortServer), []byte("\x00\x00\x00\x00"), uint16(68), false)
		f.Add(b, uint16(dhcp.PortPXE), []byte("\xc0\x00\x02\x4d"), uint16(4011), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, port uint16, source []byte, sourcePort uint16, onLink bool) {
		from := Arrival{Port: port, FromPort: sourcePort, OnLink: onLink, Server: testServer}
		copy(from.From[:], source)
		p, err := dhcp.Parse(b)
		s := newServer(t)
		for i := range 3 { // three power-ons, which may get different forms
			a := s.Handle(start.Add(time.Duration(i)*time.Hour), b, from, nil)
			if (a.Reason == Malformed) != (err != nil) || (a.Packet != nil) != (a.Reason == Answered) || a.Why() == "" {
				t.Fatalf("%x: %+v, %v", b, a, err)
			}
			if a.Reason == Answered {
				checkAnswer(t, &p, from, a, len(b))
			} else if a.To != (dhcp.Addr{}) || a.File != "" {
				t.Fatalf("%x: %+v", b, a)
			}
		}
	})
}

// fullRules returns rules with a file for every architecture, and relay agents in all networks.
func fullRules() Rules {
	r := Rules{Files: map[Arch]string{}, HTTPPort: 65535, Relays: []dhcp.Network{{}}}
	for a := BIOS; a < RaspberryPi; a++ {
		r.Files[a] = "a/boot-file-of-some-length." + archTexts[a].name
	}
	return r
}

// checkAnswer checks the properties that all answers have.
func checkAnswer(t *testing.T, p *dhcp.Packet, from Arrival, a Answer, size int) {
	t.Helper()
	q, err := dhcp.Parse(a.Packet)
	if err != nil {
		t.Fatalf("%x cannot be read: %v", a.Packet, err)
	}
	kind := byte(dhcp.Offer)
	if from.Port == dhcp.PortPXE {
		kind = dhcp.Ack
	}
	switch {
	case classify(p).Class == NoClass || a.Client.Class == NoClass:
		t.Fatal("an answer to what is no boot client")
	case q.YourAddr != dhcp.Addr{}:
		t.Fatalf("yiaddr is %v", q.YourAddr)
	case q.Op != dhcp.BootReply || q.Type() != kind || q.XID != p.XID || q.MAC() != p.MAC() || q.ServerAddr != testServer:
		t.Fatalf("the answer is %+v", q.Header)
	case len(a.Packet) < dhcp.MinPacket || len(a.Packet) > dhcp.MaxReply || 10*len(a.Packet) > 24*size:
		t.Fatalf("%d bytes for %d", len(a.Packet), size)
	}
	switch {
	case from.Port == dhcp.PortPXE:
		if a.To != from.From || a.ToPort != from.FromPort || !a.To.Unicast() {
			t.Fatalf("sent to %v:%d", a.To, a.ToPort)
		}
	case p.RelayAddr != dhcp.Addr{}:
		if a.To != p.RelayAddr || a.ToPort != dhcp.PortServer || !a.To.Unicast() {
			t.Fatalf("sent to %v:%d", a.To, a.ToPort)
		}
	case a.To != dhcp.Broadcast || a.ToPort != 68:
		t.Fatalf("sent to %v:%d", a.To, a.ToPort)
	}
	for _, code := range []uint8{dhcp.OptionMachineID, dhcp.OptionRelayAgent} {
		was, had := p.Option(code)
		if is, has := q.Option(code); has != had || !bytes.Equal(is, was) {
			t.Fatalf("option %d is %x, and was %x", code, is, was)
		}
	}
}
