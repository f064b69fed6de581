//go:build linux

package interop

import (
	"encoding/binary"
	"fmt"
	"net"
	"path/filepath"
	"testing"
)

// A PC boots by its network card's firmware, which is iPXE. That gets a script
// from haul, and by the script a kernel and a file. The kernel is ours: it has
// the emulator write down the file as it lies in the machine's memory.
func TestFirmwareIPXE(t *testing.T) {
	t.Parallel()
	const size = 4<<20 + 777
	d := serveCable(t, fill(t, t.TempDir(), map[string][]byte{
		"boot.ipxe": []byte("#!ipxe\nimgfetch nowhere ||\nkernel show\nmodule image\nboot\n"),
		"show":      moduleShower(),
		"image":     content(size),
	}))
	offerAddress(t, "boot.ipxe")
	memory := filepath.Join(t.TempDir(), "memory")
	m := powerOn(t, "e1000", "-debugcon", "file:"+memory)
	m.bootIPXE(t)
	m.awaitOff(t)
	wantFile(t, memory, content(size))
	wantLogged(t, logged(t, d),
		`done boot.ipxe octet blksize=1432 tsize=\d+`,
		`refused nowhere octet.*`,
		`done show octet blksize=1432 tsize=\d+`,
		fmt.Sprintf(`done image octet blksize=1432 tsize=%d`, size),
	)
}

// The same machine gets its script by TFTP, and all that is large by HTTP, from one
// haul.
func TestFirmwareIPXEOverHTTP(t *testing.T) {
	t.Parallel()
	const size = 4<<20 + 777
	url := "http://" + net.JoinHostPort(host, "80")
	d := serveCable(t, fill(t, t.TempDir(), map[string][]byte{
		"boot.ipxe": []byte("#!ipxe\nimgfetch " + url + "/nowhere ||\nkernel " + url + "/show\nmodule " + url + "/image\nboot\n"),
		"show":      moduleShower(),
		"image":     content(size),
	}), "--http", net.JoinHostPort(host, "80"))
	offerAddress(t, "boot.ipxe")
	memory := filepath.Join(t.TempDir(), "memory")
	m := powerOn(t, "e1000", "-debugcon", "file:"+memory)
	m.bootIPXE(t)
	m.awaitOff(t)
	wantFile(t, memory, content(size))
	wantLogged(t, logged(t, d), `done boot.ipxe octet blksize=1432 tsize=\d+`)
	wantHTTPLogged(t, d,
		`result=done direction=read file=/?show .*status=20[06]`,
		fmt.Sprintf(`result=done direction=read file=/?image .*status=200 bytes=%d`, size),
		`result=refused direction=read file=/?nowhere .*status=404`,
	)
}

// bootIPXE has iPXE get an address and boot the file that comes with it. Left
// alone, as it is if this machine is too busy to press a key in the two seconds that
// it asks for one, it does the same, but waits 16 s for an IPv6 router before.
func (m *machine) bootIPXE(t *testing.T) {
	t.Helper()
	m.await(t, `Press Ctrl-B for the iPXE command line`)
	m.press(t, 'B'&0x1f)
	if said := m.await(t, `iPXE> |Configuring`); said[0] == "Configuring" {
		return
	}
	m.enter(t, "ifconf --configurator dhcp net0")
	m.await(t, `ok(?s:.*)iPXE> `)
	m.enter(t, "chain ${filename}")
}

// moduleShower returns a Multiboot kernel that writes the first module it is
// given to the emulator's debug port, byte by byte, and ends the machine.
func moduleShower() []byte {
	const (
		load   = 0x100000 // the second megabyte: free, and where kernels go
		header = 32
		magic  = 0x1badb002
		flags  = 1 << 16 // the header says what to load where
	)
	code := append([]byte{
		0x8b, 0x73, 0x18, //             mov esi, [ebx+24]  the table of modules
		0x8b, 0x4e, 0x04, //             mov ecx, [esi+4]   where the first one ends
		0x8b, 0x36, //                   mov esi, [esi]     and begins
		0x29, 0xf1, //                   sub ecx, esi
		0xba, 0xe9, 0x00, 0x00, 0x00, // mov edx, 0xe9
		0xfc,       //                   cld
		0xf3, 0x6e, //                   rep outsb
	}, switchOff...)
	end := uint32(load + header + len(code))
	var kernel []byte
	for _, field := range []uint32{
		magic, flags, 1<<32 - magic - flags, // which add up to 0
		load, load, end, end, // where the header lies, what is loaded, and what is cleared behind it
		load + header, // where it is entered
	} {
		kernel = binary.LittleEndian.AppendUint32(kernel, field)
	}
	return append(kernel, code...)
}
