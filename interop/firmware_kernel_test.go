//go:build linux

package interop

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
)

// kernelShower returns a kernel for PCs, in the format of Linux (boot protocol version 2.02). It
// writes its command line and the sum of its initrd to the emulator's debug port, and switches
// the machine off.
func kernelShower() []byte {
	const (
		sector   = 512
		sectors  = 0x1f1 // in the header: number of sectors after the first one
		magic    = 0x1fe
		loadHigh = 0x211 // bit 0: everything after the sectors is loaded at one megabyte
		begin    = 0x230 // after the header
	)
	b := make([]byte, 2*sector)
	b[sectors], b[loadHigh] = 1, 1
	copy(b[magic:], []byte{0x55, 0xaa, 0xeb, begin - magic - 4}) // and a jump over the header
	copy(b[magic+4:], "HdrS\x02\x02")
	code := []byte{ // 16 bits
		0xfa,             //       cli
		0x66, 0x31, 0xc0, //       xor eax, eax
		0x8c, 0xd8, //             mov ax, ds
		0x66, 0xc1, 0xe0, 0x04, // shl eax, 4
		0x66, 0x89, 0xc3, //       mov ebx, eax   where the sectors are
		0x66, 0x01, 0x06, 0, 0, // add [segments+2], eax
		0x0f, 0x01, 0x16, 0, 0, // lgdt [segments]
		0x0f, 0x20, 0xc0, //       mov eax, cr0
		0x0c, 0x01, //             or al, 1
		0x0f, 0x22, 0xc0, //       mov cr0, eax
		0x66, 0xea, 0, 0, 0x10, 0, 8, 0, // jmp 8:0x100000
	}
	segments := begin + len(code)
	binary.LittleEndian.PutUint16(code[16:], uint16(segments+2))
	binary.LittleEndian.PutUint16(code[21:], uint16(segments))
	copy(b[begin:], code)
	// This is the size of the table and its address; an empty segment, one for code, one for
	// data.
	b[segments] = 3*8 - 1
	binary.LittleEndian.PutUint16(b[segments+2:], uint16(segments+6))
	copy(b[segments+6+8:], "\xff\xff\x00\x00\x00\x9a\xcf\x00"+"\xff\xff\x00\x00\x00\x92\xcf\x00")
	b = append(b, // 32 bits
		0x66, 0xb8, 0x10, 0, //       mov ax, 16
		0x8e, 0xd8, //                mov ds, ax
		0xba, 0xe9, 0, 0, 0, //       mov edx, 0xe9
		0xfc,                      // cld
		0x8b, 0xb3, 0x28, 2, 0, 0, // mov esi, [ebx+0x228]  the command line
		0xac,       //                lodsb
		0x84, 0xc0, //                test al, al
		0x74, 0x03, //                jz behind the next jump
		0xee,       //                out dx, al
		0xeb, 0xf8, //                jmp to the lodsb
		0xb0, '\n', //                mov al, '\n'
		0xee,                      // out dx, al
		0x8b, 0xb3, 0x18, 2, 0, 0, // mov esi, [ebx+0x218]  the initrd
		0x8b, 0x8b, 0x1c, 2, 0, 0, // mov ecx, [ebx+0x21c]  its length
	)
	return slices.Concat(b, showSum, switchOff)
}

// shown returns the output of a kernelShower.
func shown(commandLine string, initrd []byte) []byte {
	return append([]byte(commandLine+"\n"), sumOf(initrd)...)
}

// showSum is x86 machine code, for 32 and 64 bits, that writes the sum of the ECX bytes at ESI to
// the debug port. Writing the bytes themselves would cost the emulator a system call for each.
var showSum = []byte{
	0xfc,                         // cld
	0xbb, 0xc5, 0x9d, 0x1c, 0x81, // mov ebx, 0x811c9dc5
	0xac,             //             lodsb
	0x0f, 0xb6, 0xc0, //             movzx eax, al
	0x31, 0xc3, //                   xor ebx, eax
	0x69, 0xdb, 0x93, 1, 0, 1, //    imul ebx, ebx, 0x1000193
	0xe2, 0xf2, //                   loop to the lodsb
	0xba, 0xe9, 0, 0, 0, //          mov edx, 0xe9
	0xb9, 4, 0, 0, 0, //             mov ecx, 4
	0xc1, 0xc3, 8, //                rol ebx, 8
	0x88, 0xd8, //                   mov al, bl
	0xee,       //                   out dx, al
	0xe2, 0xf8, //                   loop to the rol
}

// sumOf returns the output of showSum for some bytes: their 32-bit FNV-1a hash.
func sumOf(b []byte) []byte {
	h := fnv.New32a()
	_, _ = h.Write(b)
	return h.Sum(nil)
}
