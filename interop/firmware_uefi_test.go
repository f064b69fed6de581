//go:build linux

package interop

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"testing"
)

// UEFI's own network boot, in EDK II, first asks for a file's size and cancels its request, then
// fetches the file and runs it. This program makes the emulator write the sum of its part that is
// in the machine's memory.
func TestFirmwareUEFI(t *testing.T) {
	t.Parallel()
	data := content(4<<20 + 777)
	program := selfShower(data)
	d := serveCable(t, fill(t, t.TempDir(), map[string][]byte{"boot.efi": program}))
	offerAddress(t, "boot.efi")
	memory := filepath.Join(t.TempDir(), "memory")
	// This card has no firmware of its own, which would replace UEFI's.
	m := powerOn(t, "virtio-net-pci,romfile=", "-bios", needFile(t, "ovmf", "/usr/share/ovmf/OVMF.fd"), "-debugcon", "file:"+memory)
	m.awaitOff(t)
	wantFile(t, memory, sumOf(data))
	wantLogged(t, logged(t, d),
		fmt.Sprintf(`probe boot.efi octet blksize=1468 windowsize=4 tsize=%d`, len(program)),
		`done boot.efi octet blksize=1468 windowsize=4`,
	)
}

// UEFI's HTTP boot, in EDK II, asks for a file's size with HEAD, fetches the file and runs it. It
// uses no TFTP at all.
func TestFirmwareUEFIOverHTTP(t *testing.T) {
	t.Parallel()
	data := content(4<<20 + 777)
	program := selfShower(data)
	url := "http://" + net.JoinHostPort(host, "80")
	d := serveCable(t, fill(t, t.TempDir(), map[string][]byte{"boot.efi": program}), "--http", net.JoinHostPort(host, "80"))
	// As docs/http.md explains, it only accepts an offer that is marked for it.
	offerAddress(t, "for-tftp", "--dhcp-vendorclass=set:http,HTTPClient", "--dhcp-option-force=tag:http,60,HTTPClient",
		"--dhcp-boot=tag:http,"+url+"/boot.efi")
	memory := filepath.Join(t.TempDir(), "memory")
	m := powerOn(t, "virtio-net-pci,romfile=", "-bios", needFile(t, "ovmf", "/usr/share/ovmf/OVMF.fd"), "-debugcon", "file:"+memory,
		"-fw_cfg", "name=opt/org.tianocore/IPv4PXESupport,string=no", "-fw_cfg", "name=opt/org.tianocore/IPv6Support,string=no")
	m.awaitOff(t)
	wantFile(t, memory, sumOf(data))
	wantLogged(t, logged(t, d))
	wantHTTPLogged(t, d,
		`result=probe direction=read file=/?boot.efi .*status=200`,
		fmt.Sprintf(`result=done direction=read file=/?boot.efi .*status=200 bytes=%d`, len(program)),
	)
}

// selfShower returns a UEFI program that writes the sum of its data to the emulator's debug port,
// and switches the machine off.
func selfShower(data []byte) []byte { return efi(pe.IMAGE_FILE_MACHINE_AMD64, showData(data)) }

// commandShower returns a selfShower that first writes its command line in UEFI's format: UTF-16
// with a NUL at the end.
func commandShower(data []byte) []byte {
	code := []byte{
		0x48, 0x83, 0xec, 56, //             sub rsp, 56
		0x48, 0x8b, 0x42, 0x60, //           mov rax, [rdx+0x60]  the boot services
		0x48, 0x8d, 0x15, 0, 0, 0, 0, //     lea rdx, [rip+offset of the GUID]
		0x4c, 0x8d, 0x44, 0x24, 48, //       lea r8, [rsp+48]
		0xff, 0x90, 0x98, 0, 0, 0, //        call [rax+0x98]      HandleProtocol
		0x48, 0x8b, 0x5c, 0x24, 48, //       mov rbx, [rsp+48]
		0x48, 0x8b, 0x73, 0x38, //           mov rsi, [rbx+0x38]  the command line
		0x8b, 0x4b, 0x30, //                 mov ecx, [rbx+0x30]  its length
		0xba, 0xe9, 0, 0, 0, //              mov edx, 0xe9
		0xfc,       //                       cld
		0xf3, 0x6e, //                       rep outsb
	}
	show := showData(data)
	binary.LittleEndian.PutUint32(code[11:], uint32(len(code)-15+len(show))) // relative to the next instruction
	const loadedImage = "\xa1\x31\x1b\x5b\x62\x95\xd2\x11\x8e\x3f\x00\xa0\xc9\x69\x72\x3b"
	return efi(pe.IMAGE_FILE_MACHINE_AMD64, slices.Concat(code, show, []byte(loadedImage)))
}

// showData returns the code of a selfShower, followed by the data.
func showData(data []byte) []byte {
	code := slices.Concat([]byte{
		0x48, 0x8d, 0x35, 0, 0, 0, 0, // lea rsi, [rip+offset of the data]
		0xb9, 0, 0, 0, 0, //             mov ecx, length of the data
	}, showSum, switchOff)
	binary.LittleEndian.PutUint32(code[3:], uint32(len(code)-7)) // relative to the next instruction
	binary.LittleEndian.PutUint32(code[8:], uint32(len(data)))
	return append(code, data...)
}

// efi wraps code for a processor, which is entered at its beginning, into a UEFI program: a PE
// file with one section that can be loaded anywhere.
func efi(processor uint16, code []byte) []byte {
	const page, sector = 0x1000, 0x200
	up := func(n, to int) uint32 { return uint32((n + to - 1) / to * to) }
	var text [8]uint8
	copy(text[:], ".text")
	stub := make([]byte, 0x40) // a DOS header with the position of the real one
	copy(stub, "MZ")
	stub[0x3c] = uint8(len(stub))
	b := bytes.NewBuffer(stub)
	for _, part := range []any{
		[]byte("PE\x00\x00"),
		pe.FileHeader{
			Machine:              processor,
			NumberOfSections:     1,
			SizeOfOptionalHeader: uint16(binary.Size(pe.OptionalHeader64{})),
			Characteristics:      pe.IMAGE_FILE_EXECUTABLE_IMAGE | pe.IMAGE_FILE_LARGE_ADDRESS_AWARE,
		},
		pe.OptionalHeader64{
			Magic:               0x20b, // 64 bits
			SizeOfCode:          up(len(code), sector),
			AddressOfEntryPoint: page,
			BaseOfCode:          page,
			SectionAlignment:    page,
			FileAlignment:       sector,
			SizeOfImage:         page + up(len(code), page),
			SizeOfHeaders:       sector,
			Subsystem:           pe.IMAGE_SUBSYSTEM_EFI_APPLICATION,
			NumberOfRvaAndSizes: uint32(len(pe.OptionalHeader64{}.DataDirectory)),
		},
		pe.SectionHeader32{
			Name:             text,
			VirtualSize:      uint32(len(code)),
			VirtualAddress:   page,
			SizeOfRawData:    up(len(code), sector),
			PointerToRawData: sector,
			Characteristics:  pe.IMAGE_SCN_CNT_CODE | pe.IMAGE_SCN_MEM_EXECUTE | pe.IMAGE_SCN_MEM_READ,
		},
	} {
		if err := binary.Write(b, binary.LittleEndian, part); err != nil {
			panic(err) // all have a fixed size
		}
	}
	b.Write(make([]byte, sector-b.Len()))
	b.Write(code)
	b.Write(make([]byte, int(up(b.Len(), sector))-b.Len()))
	return b.Bytes()
}
