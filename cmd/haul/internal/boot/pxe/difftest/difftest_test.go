// Package difftest compares the DHCPv4 codec of package pxe with that of
// github.com/insomniacslk/dhcp. It is a separate module, so that haul does not depend on that
// library.
package difftest

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/insomniacslk/dhcp/dhcpv4"
)

var server = dhcp.Addr{192, 0, 2, 9}

// discover returns a DISCOVER with the given options.
func discover(options string) []byte {
	h := dhcp.Header{Op: dhcp.BootRequest, HType: 1, HLen: 6, XID: 0x12345678, HardwareAddr: [16]byte{0x52, 0x54, 0, 0, 0, 1}}
	return append(append(dhcp.AppendHeader(nil, &h), "\x35\x01\x01"...), options...)
}

func seeds() [][]byte {
	long := string(bytes.Repeat([]byte{'x'}, 255))
	return [][]byte{
		discover("\x3c\x09PXEClient\x5d\x02\x00\x07\xff"),
		discover("\x3c\x0aHTTPClient\x5d\x02\x00\x10\x61\x11\x000123456789abcdef\xff\x00\x00"),
		discover("\x00\x4d\x04iPXE\x00\x00\xaf\x06\x13\x01\x01\x24\x01\x01\x5d\x02\x00\x0b\xff"),
		discover("\x3c\x04PXEC\x5d\x02\x00\x07\x3c\x00\x3c\x05lient\xff"),
		discover("\x3c\xffPXEClient" + long[9:] + "\x3c\x01y\xff"),
		discover("\x3c\x09PXEClient\x5d\x02\x00\x07\x52\x02ab\x52\x02cd\xff"),
		discover("\x3c\x09PXEClient"),
		discover("\x3c\x20PXEClient\xff"),
		discover("\x34\x01\x03\xff"),
	}
}

// FuzzParse lets both libraries parse the same bytes. Only these differences are allowed: pxe
// accepts packets without END, and options in sname and file (option 52). It refuses packets that
// exceed its bound, hardware addresses of more than 16 bytes, and an invalid option 52.
func FuzzParse(f *testing.F) {
	for _, b := range seeds() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		ours, errOurs := dhcp.Parse(b)
		theirs, errTheirs := dhcpv4.FromBytes(bytes.Clone(b))
		if errOurs == nil && errTheirs != nil {
			// With END, the other library must accept the packet too.
			if theirs, errTheirs = dhcpv4.FromBytes(append(bytes.Clone(b), dhcp.OptionEnd)); errTheirs != nil {
				t.Fatalf("%x: pxe reads %+v, they do not even with END: %v", b, ours.Header, errTheirs)
			}
		}
		switch {
		case errTheirs != nil:
		case theirs.Options.Has(dhcpv4.OptionOptionOverload):
		case errOurs != nil:
			if len(b) <= dhcp.MaxRequest && b[2] <= 16 {
				t.Fatalf("%x: they read %v, pxe does not: %v", b, theirs, errOurs)
			}
		default:
			same(t, &ours, theirs)
		}
	})
}

// FuzzAnswers lets the other library parse our answers, and pxe parse the request as the other
// library writes it.
func FuzzAnswers(f *testing.F) {
	for _, b := range seeds() {
		f.Add(b, false)
		f.Add(b, true)
	}
	files := map[pxe.Arch]string{}
	for _, name := range []string{"bios", "ia32", "x64", "arm", "arm64", "riscv64", "uboot-arm64"} {
		arch, err := pxe.ParseArch(name)
		if err != nil {
			f.Fatal(err)
		}
		files[arch] = name + ".efi"
	}
	f.Fuzz(func(t *testing.T, b []byte, asksPXE bool) {
		s, err := pxe.NewServer(pxe.Rules{Files: files, HTTPPort: 8080})
		if err != nil {
			t.Fatal(err)
		}
		from := pxe.Arrival{Port: dhcp.PortServer, From: dhcp.Addr{192, 0, 2, 77}, FromPort: 68, OnLink: true, Server: server}
		if asksPXE {
			from.Port = dhcp.PortPXE
		}
		if a := s.Handle(time.Unix(1_000_000, 0), b, from, nil); a.Reason == pxe.Answered {
			compare(t, a.Packet)
		}
		if theirs, err := dhcpv4.FromBytes(bytes.Clone(b)); err == nil && !theirs.Options.Has(dhcpv4.OptionOptionOverload) {
			if written := theirs.ToBytes(); len(written) <= dhcp.MaxRequest {
				compare(t, written)
			}
		}
	})
}

// compare lets both libraries parse a packet that both must accept.
func compare(t *testing.T, b []byte) {
	t.Helper()
	ours, err := dhcp.Parse(b)
	if err != nil {
		t.Fatalf("%x: pxe: %v", b, err)
	}
	theirs, err := dhcpv4.FromBytes(bytes.Clone(b))
	if err != nil {
		t.Fatalf("%x: they: %v", b, err)
	}
	same(t, &ours, theirs)
}

// same compares the results of both libraries for one packet.
func same(t *testing.T, ours *dhcp.Packet, theirs *dhcpv4.DHCPv4) {
	t.Helper()
	h := dhcp.Header{
		Op: uint8(theirs.OpCode), HType: uint8(theirs.HWType), HLen: uint8(len(theirs.ClientHWAddr)), Hops: theirs.HopCount,
		XID: binary.BigEndian.Uint32(theirs.TransactionID[:]), Secs: theirs.NumSeconds, Flags: theirs.Flags,
		ClientAddr: dhcp.Addr(theirs.ClientIPAddr), YourAddr: dhcp.Addr(theirs.YourIPAddr),
		ServerAddr: dhcp.Addr(theirs.ServerIPAddr), RelayAddr: dhcp.Addr(theirs.GatewayIPAddr),
	}
	mine := ours.Header
	copy(h.HardwareAddr[:], theirs.ClientHWAddr)
	clear(mine.HardwareAddr[mine.HLen:]) // the other library drops the bytes after the address
	copy(h.ServerName[:], theirs.ServerHostName)
	copy(h.File[:], theirs.BootFileName)
	cut(mine.ServerName[:]) // and the bytes after a NUL
	cut(mine.File[:])
	if mine != h {
		t.Fatalf("pxe reads %+v, they read %+v", mine, h)
	}
	n := 0
	for code, value := range ours.Options() {
		n++
		if got, ok := theirs.Options[code]; !ok || !bytes.Equal(got, value) {
			t.Fatalf("option %d: pxe reads %x, they read %x", code, value, got)
		}
	}
	if n != len(theirs.Options) {
		t.Fatalf("pxe reads %d options, they read %v", n, theirs.Options)
	}
}

// cut clears the bytes of a field after its first NUL.
func cut(field []byte) {
	if i := bytes.IndexByte(field, 0); i >= 0 {
		clear(field[i:])
	}
}
